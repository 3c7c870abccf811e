// What the tests feed to the core: files in memory, framed records, protobuf messages.
#pragma once

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/framing.h"
#include "tests/check.h"

namespace feedline::samples {

using Bytes = std::vector<uint8_t>;

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Bytes& operator+=(Bytes& a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Bytes text(std::string_view characters) { return Bytes(characters.begin(), characters.end()); }

template <class T>
Bytes memory(std::initializer_list<T> values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

// A file that dies with its descriptor.
class File {
 public:
  explicit File(const Bytes& bytes) : descriptor_(::memfd_create("feedline-test", MFD_CLOEXEC)) {
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
    append(bytes);
  }
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), path_(other.path_) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  void append(const Bytes& bytes) {
    CHECK_EQ(::write(descriptor_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void cut(size_t size) const { CHECK_EQ(::ftruncate(descriptor_, static_cast<off_t>(size)), 0); }
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

inline Bytes gzipped(const Bytes& bytes) {
  z_stream zlib{};
  deflateInit2(&zlib, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&zlib, static_cast<uLong>(bytes.size())) + 64);
  zlib.next_in = const_cast<Bytef*>(bytes.data());
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = out.data();
  zlib.avail_out = static_cast<uInt>(out.size());
  CHECK_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

// A header that holds, whatever it claims.
inline Bytes header(uint64_t length) {
  Bytes bytes = memory({length});
  return bytes + memory({masked_crc32c_u64(length)});
}

inline Bytes framed(const Bytes& payload) {
  Bytes frame(kHeaderSize + payload.size() + kFooterSize);
  std::copy(payload.begin(), payload.end(), frame.begin() + kHeaderSize);
  write_frame_around(payload, frame.data(), frame.data() + kHeaderSize + payload.size());
  return frame;
}

// Payloads that differ from each other, and in which no header holds.
inline Bytes payload(size_t size, uint8_t salt) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(salt + i * 7 + (i >> 8));
  return bytes;
}

// --- protobuf ---

inline Bytes varint(uint64_t value) {
  Bytes bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<uint8_t>(value | 0x80));
  bytes.push_back(static_cast<uint8_t>(value));
  return bytes;
}

inline Bytes field(uint32_t number, const Bytes& content) {
  return varint(number << 3 | 2) + varint(content.size()) + content;
}

inline Bytes packed_ints(std::initializer_list<int64_t> values) {
  Bytes run;
  for (int64_t value : values) run += varint(static_cast<uint64_t>(value));
  return field(1, run);
}
inline Bytes packed_floats(std::initializer_list<float> values) { return field(1, memory(values)); }

inline Bytes single_ints(std::initializer_list<int64_t> values) {
  Bytes list;
  for (int64_t value : values) list += Bytes{0x08} + varint(static_cast<uint64_t>(value));
  return list;
}
inline Bytes single_floats(std::initializer_list<float> values) {
  Bytes list;
  for (float value : values) list += Bytes{0x0d} + memory({value});
  return list;
}

// Features: the lists in the kinds' fields.
inline Bytes bytes_list(const Bytes& list) { return field(1, list); }
inline Bytes float_list(const Bytes& list) { return field(2, list); }
inline Bytes int64_list(const Bytes& list) { return field(3, list); }

inline Bytes ints(std::initializer_list<int64_t> values) { return int64_list(packed_ints(values)); }
inline Bytes floats(std::initializer_list<float> values) { return float_list(packed_floats(values)); }
inline Bytes strings(std::initializer_list<std::string_view> values) {
  Bytes list;
  for (std::string_view value : values) list += field(1, text(value));
  return bytes_list(list);
}
inline Bytes string_of(const Bytes& value) { return bytes_list(field(1, value)); }

// An entry of the map in Features or FeatureLists.
inline Bytes entry(std::string_view key, const Bytes& value) {
  return field(1, field(1, text(key)) + field(2, value));
}
inline Bytes feature_list(std::initializer_list<Bytes> features) {
  Bytes list;
  for (const Bytes& feature : features) list += field(1, feature);
  return list;
}
inline Bytes example(const Bytes& entries) { return field(1, entries); }
inline Bytes sequence_example(const Bytes& context, const Bytes& lists) {
  return field(1, context) + field(2, lists);
}

}  // namespace feedline::samples
