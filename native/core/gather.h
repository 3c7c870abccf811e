// Rows by index out of columns, and the offsets of columns end to end: what `take` and `concat` stand on.
//
// Indices and offsets are the caller's word. Each is read once and checked right before it is used, so that
// neither a wrong one nor one that another thread changes meanwhile leads outside the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/buffer.h"

namespace feedline {

// The first index or offset that cannot be used: its position, or kSound.
struct Flaw {
  enum class Kind : uint8_t { kNone, kIndex, kOffset, kSource };
  Kind kind = Kind::kNone;
  int64_t at = 0;     // position among the indices or the offsets
  int64_t value = 0;  // what stands there

  explicit operator bool() const noexcept { return kind != Kind::kNone; }
};

// A dense column: row i is the `bytes` bytes at data + i * stride. The stride may be negative.
struct Rows {
  const uint8_t* data = nullptr;
  int64_t count = 0;
  ptrdiff_t stride = 0;
  size_t bytes = 0;
};

// Copies rows[indices[0]], rows[indices[1]], ... to `out`, which holds indices.size() * rows.bytes.
Flaw gather_rows(const Rows& rows, std::span<const int64_t> indices, uint8_t* out) noexcept;

// A ragged column without its values: row i is the values offsets[i] to offsets[i + 1] of `values` ones.
struct Ranges {
  std::span<const int64_t> offsets;
  int64_t values = 0;
};

// The offsets of the rows at `indices` laid end to end, from 0. Throws std::bad_alloc.
Flaw gather_offsets(const Ranges& ranges, std::span<const int64_t> indices, Buffer& out);

// The values of the rows at `indices`; `data` holds ranges.values items of `unit` bytes, and `offsets` is
// what gather_offsets gave. Throws std::bad_alloc.
Flaw gather_values(std::span<const uint8_t> data, size_t unit, const Ranges& ranges,
                   std::span<const int64_t> indices, std::span<const int64_t> offsets, Buffer& out);

// As gather_values, with the position of each value instead of its bytes: for values that are ragged
// themselves.
Flaw gather_positions(const Ranges& ranges, std::span<const int64_t> indices,
                      std::span<const int64_t> offsets, Buffer& out);

// The offsets of ragged columns laid end to end, from 0, whatever each part starts at. Throws std::bad_alloc.
Buffer join_offsets(std::span<const std::span<const int64_t>> parts);

// The position of the first offset that is less than the one before it, or -1.
int64_t first_fall(std::span<const int64_t> offsets) noexcept;

}  // namespace feedline
