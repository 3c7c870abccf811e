// Columns -> serialized tf.train.Example records, many at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/buffer.h"
#include "core/fault.h"
#include "core/schema.h"

namespace feedline {

// One feature of every row, in memory that the caller keeps alive. A row has `per_row` values, or, where
// there are `row_offsets` (rows + 1 of them), those between its offset and the next.
struct EncodeColumn {
  std::string_view key = {};  // UTF-8
  ValueKind kind = ValueKind::kNone;
  const int64_t* ints = nullptr;          // kInt64
  const float* floats = nullptr;          // kFloat
  std::string_view bytes = {};            // kBytes: all strings back to back
  const int64_t* byte_offsets = nullptr;  // kBytes: string i lies between offsets i and i + 1
  size_t values = 0;                      // how many numbers or strings there are in all
  size_t per_row = 0;
  const int64_t* row_offsets = nullptr;
};

// `records` gets the rows' Examples back to back, features in the order of
// the columns, and `offsets`, rows + 1 uint64, where each begins. A column whose offsets or sizes do not fit
// what it holds is a kSchema fault, and then both are empty.
Fault encode_examples(std::span<const EncodeColumn> columns, size_t rows, Buffer& records, Buffer& offsets);

// The same, each record with a TFRecord's header and footer: the bytes of a file.
Fault encode_framed(std::span<const EncodeColumn> columns, size_t rows, Buffer& frames);

}  // namespace feedline
