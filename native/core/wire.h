// The protobuf wire format: varints, tags, length-delimited fields. Reads never pass `end`.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace feedline::wire {

enum Type : uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kGroup = 3, kEndGroup = 4, kFixed32 = 5 };

constexpr uint32_t tag(uint32_t field, Type type) { return field << 3 | type; }

// A stretch of bytes being read. Every read returns false, and may leave `at` anywhere up to `end`, when
// the bytes are not what it asks for.
struct Cursor {
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;

  Cursor() = default;
  Cursor(const uint8_t* begin, size_t size) : at(begin), end(begin + size) {}
  bool done() const noexcept { return at == end; }
  size_t left() const noexcept { return static_cast<size_t>(end - at); }
  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(at), left()}; }
};

// Protobuf takes at most 10 bytes and drops the bits beyond the 64th.
inline bool read_varint(Cursor& in, uint64_t& value) noexcept {
  if (in.at < in.end && *in.at < 0x80) [[likely]] {
    value = *in.at++;
    return true;
  }
  uint64_t result = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (in.at == in.end) return false;
    const uint64_t byte = *in.at++;
    result |= (byte & 0x7f) << (shift & 63) & (shift < 64 ? ~uint64_t{0} : 0);
    if (byte < 0x80) {
      value = result;
      return true;
    }
  }
  return false;
}

// The varint that is all of `in`, without a branch for each of its bytes. Needs eight readable bytes before
// `in.end`, which is so for every value in a message that is nested in others. Longer ones are left to
// read_varint.
inline bool read_whole_varint(const Cursor& in, uint64_t& value) noexcept {
  const size_t size = in.left();
  if (size - 1 >= 8) return false;
  uint64_t word = 0;
  std::memcpy(&word, in.end - 8, 8);
  word >>= 64 - 8 * size;
  constexpr uint64_t kMore = 0x8080808080808080;
  // Every byte but the last says that another follows.
  if ((word & kMore) != (kMore & ((uint64_t{1} << 8 * (size - 1)) - 1))) return false;
  word &= ~kMore;
  word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
  word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
  value = (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
  return true;
}

inline bool read_tag(Cursor& in, uint32_t& value) noexcept {
  uint64_t wide = 0;
  if (!read_varint(in, wide) || wide >> 32 != 0 || wide >> 3 == 0) return false;
  value = static_cast<uint32_t>(wide);
  return true;
}

inline bool read_delimited(Cursor& in, Cursor& inner) noexcept {
  uint64_t size = 0;
  // Compare with what is left; adding a hostile size to `at` could wrap past `end`.
  if (!read_varint(in, size) || size > in.left()) return false;
  inner = Cursor(in.at, static_cast<size_t>(size));
  in.at += size;
  return true;
}

template <class T>
inline bool read_fixed(Cursor& in, T& value) noexcept {
  if (in.left() < sizeof(T)) return false;
  std::memcpy(&value, in.at, sizeof(T));
  in.at += sizeof(T);
  return true;
}

namespace detail {
bool skip_field(Cursor& in, uint32_t tag, int depth) noexcept;
}

// Skips one field whose tag has been read.
inline bool skip_field(Cursor& in, uint32_t tag) noexcept {
  // A cursor whose address leaves the caller would live in memory there, also on the way where nothing is
  // skipped.
  Cursor copy = in;
  const bool skipped = detail::skip_field(copy, tag, 0);
  in = copy;
  return skipped;
}

}  // namespace feedline::wire
