#include "core/encode.h"

#include <bit>
#include <cstring>
#include <string>

#include "core/framing.h"
#include "core/wire.h"

// An Example with one feature is written like this; every `size` counts the bytes that follow it:
//   0a size { 0a size { 0a size key  12 size { kind size { 0a size values } } } ... }
//   features  entry     key          feature   list       packed numbers, or one field for each string

namespace feedline {

namespace {

constexpr uint8_t kFirst = wire::tag(1, wire::kDelimited);
constexpr uint8_t kSecond = wire::tag(2, wire::kDelimited);
constexpr size_t kSlack = 8;  // write_varint stores whole words
constexpr size_t kMaxMessage = 2147483647;

size_t varint_size(uint64_t value) noexcept {
  return (static_cast<size_t>(std::bit_width(value | 1)) * 9 + 64) / 64;
}

// A field of `size` bytes, with its tag and its length.
size_t field_size(size_t size) noexcept { return 1 + varint_size(size) + size; }

// May write up to kSlack bytes from `out` on, whatever the value's size.
inline uint8_t* write_varint(uint8_t* out, uint64_t value) noexcept {
  if (value < uint64_t{1} << 56) {
    // Spread the groups of 7 bits over the 8 bytes of a word, halving the distance each time, instead of a
    // loop whose length is hard to predict.
    const size_t size = varint_size(value);
    uint64_t word = (value & 0x000000000fffffff) | (value & 0x00fffffff0000000) << 4;
    word = (word & 0x00003fff00003fff) | (word & 0x0fffc0000fffc000) << 2;
    word = (word & 0x007f007f007f007f) | (word & 0x3f803f803f803f80) << 1;
    word |= 0x8080808080808080 & ((uint64_t{1} << (8 * (size - 1))) - 1);
    std::memcpy(out, &word, sizeof word);
    return out + size;
  }
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<uint8_t>(value | 0x80);
  *out = static_cast<uint8_t>(value);
  return out + 1;
}

inline uint8_t* write_head(uint8_t* out, uint8_t tag, size_t size) noexcept {
  *out = tag;
  if (size < 0x80) [[likely]] {  // sizes, unlike values, are much the same from row to row
    out[1] = static_cast<uint8_t>(size);
    return out + 2;
  }
  return write_varint(out + 1, size);
}

inline uint8_t* write_bytes(uint8_t* out, std::string_view bytes) noexcept {
  if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
  return out + bytes.size();
}

struct Range {
  size_t begin, end;
  size_t count() const noexcept { return end - begin; }
};

inline Range row_range(const EncodeColumn& column, size_t row) noexcept {
  if (column.row_offsets == nullptr) return {row * column.per_row, (row + 1) * column.per_row};
  return {static_cast<size_t>(column.row_offsets[row]), static_cast<size_t>(column.row_offsets[row + 1])};
}

inline std::string_view string_at(const EncodeColumn& column, size_t at) noexcept {
  const auto begin = static_cast<size_t>(column.byte_offsets[at]);
  return column.bytes.substr(begin, static_cast<size_t>(column.byte_offsets[at + 1]) - begin);
}

// The bytes of the row's packed numbers, or of the fields of its strings.
inline size_t payload_size(const EncodeColumn& column, Range row) noexcept {
  size_t size = 0;
  switch (column.kind) {
    case ValueKind::kNone:
      break;
    case ValueKind::kFloat:
      size = row.count() * sizeof(float);
      break;
    case ValueKind::kInt64:
      for (size_t i = row.begin; i < row.end; ++i) size += varint_size(static_cast<uint64_t>(column.ints[i]));
      break;
    case ValueKind::kBytes:
      for (size_t i = row.begin; i < row.end; ++i) size += field_size(string_at(column, i).size());
      break;
  }
  return size;
}

// The sizes of the messages around the payload, from the inside out.
struct Sizes {
  size_t list;     // BytesList, FloatList or Int64List
  size_t feature;  // Feature
  size_t entry;    // the map's entry

  Sizes(const EncodeColumn& column, size_t payload) noexcept {
    const bool packed = column.kind != ValueKind::kBytes && payload != 0;
    list = packed ? field_size(payload) : payload;
    feature = column.kind == ValueKind::kNone ? 0 : field_size(list);
    entry = field_size(column.key.size()) + field_size(feature);
  }
};

inline uint8_t* write_feature(uint8_t* out, const EncodeColumn& column, Range row, size_t payload) noexcept {
  const Sizes sizes(column, payload);
  out = write_head(out, kFirst, sizes.entry);
  out = write_head(out, kFirst, column.key.size());
  out = write_bytes(out, column.key);
  out = write_head(out, kSecond, sizes.feature);
  if (column.kind == ValueKind::kNone) return out;
  out = write_head(out, static_cast<uint8_t>(wire::tag(static_cast<uint32_t>(column.kind), wire::kDelimited)),
                   sizes.list);
  if (row.count() == 0) return out;
  if (column.kind == ValueKind::kBytes) {
    for (size_t i = row.begin; i < row.end; ++i) {
      const std::string_view string = string_at(column, i);
      out = write_bytes(write_head(out, kFirst, string.size()), string);
    }
    return out;
  }
  out = write_head(out, kFirst, payload);
  if (column.kind == ValueKind::kFloat) {
    std::memcpy(out, column.floats + row.begin, payload);
    return out + payload;
  }
  for (size_t i = row.begin; i < row.end; ++i) out = write_varint(out, static_cast<uint64_t>(column.ints[i]));
  return out;
}

// Whether `count` + 1 offsets go up from 0 or more to `limit` or less.
bool good_offsets(const int64_t* offsets, size_t count, size_t limit) noexcept {
  if (offsets[0] < 0) return false;
  for (size_t i = 0; i < count; ++i) {
    if (offsets[i] > offsets[i + 1]) return false;
  }
  return static_cast<uint64_t>(offsets[count]) <= limit;
}

Fault misfit(const EncodeColumn& column, const std::string& what) {
  return Fault::schema(what, std::string(column.key));
}

Fault check(const EncodeColumn& column, size_t rows) {
  const std::string limit = std::to_string(column.values);
  if (column.row_offsets != nullptr) {
    if (!good_offsets(column.row_offsets, rows, column.values)) {
      return misfit(column, "the row offsets do not go up within 0 and " + limit + ", the number of values");
    }
  } else if (column.per_row != 0 && column.values / column.per_row < rows) {
    return misfit(column, "the column holds " + limit + " values, too few for " + std::to_string(rows) +
                              " rows of " + std::to_string(column.per_row));
  }
  if (column.kind == ValueKind::kBytes &&
      !good_offsets(column.byte_offsets, column.values, column.bytes.size())) {
    return misfit(column, "the byte offsets do not go up within 0 and " +
                              std::to_string(column.bytes.size()) + ", the number of bytes");
  }
  return {};
}

// With `framed`, a header in front of each record and a footer behind it.
Fault encode(std::span<const EncodeColumn> columns, size_t rows, bool framed, Buffer& records,
             Buffer& offsets) {
  records = Buffer();
  offsets = Buffer();
  for (const EncodeColumn& column : columns) {
    if (Fault fault = check(column, rows)) return fault;
  }

  // Measure everything first, so that the memory is asked for once and a message's size can be written before
  // it. A payload's size takes less room than the tags and key that are written around it.
  Buffer measured(rows * columns.size() * sizeof(uint32_t));
  Buffer sizes(rows * sizeof(uint32_t));
  Buffer ends((rows + 1) * sizeof(uint64_t));
  uint32_t* payload = measured.as<uint32_t>();
  uint64_t* end = ends.as<uint64_t>();
  end[0] = 0;
  for (size_t row = 0; row < rows; ++row) {
    size_t features = 0;
    for (const EncodeColumn& column : columns) {
      const size_t size = payload_size(column, row_range(column, row));
      *payload++ = static_cast<uint32_t>(size);  // a size that does not fit is refused below
      features += field_size(Sizes(column, size).entry);
    }
    sizes.as<uint32_t>()[row] = static_cast<uint32_t>(features);
    const size_t size = columns.empty() ? 0 : field_size(features);
    if (size > kMaxMessage) {
      return Fault::schema("row " + std::to_string(row) + " would take " + std::to_string(size) +
                               " bytes, and no protobuf parser takes more than 2147483647",
                           "");
    }
    end[row + 1] = end[row] + size + (framed ? kFraming : 0);
  }

  Buffer bytes(static_cast<size_t>(end[rows]) + kSlack);
  uint8_t* out = bytes.data();
  payload = measured.as<uint32_t>();
  for (size_t row = 0; row < rows; ++row) {
    uint8_t* const header = out;
    if (framed) out += kHeaderSize;
    uint8_t* const record = out;
    if (!columns.empty()) out = write_head(out, kFirst, sizes.as<uint32_t>()[row]);
    for (const EncodeColumn& column : columns) {
      out = write_feature(out, column, row_range(column, row), *payload++);
    }
    if (framed) {  // at once: the record is still in the cache
      write_frame_around({record, out}, header, out);
      out += kFooterSize;
    }
  }
  bytes.resize(static_cast<size_t>(end[rows]));
  records = std::move(bytes);
  offsets = std::move(ends);
  return {};
}

}  // namespace

Fault encode_examples(std::span<const EncodeColumn> columns, size_t rows, Buffer& records, Buffer& offsets) {
  return encode(columns, rows, false, records, offsets);
}

Fault encode_framed(std::span<const EncodeColumn> columns, size_t rows, Buffer& frames) {
  Buffer offsets;
  return encode(columns, rows, true, frames, offsets);
}

}  // namespace feedline
