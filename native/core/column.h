// Rows of one feature, as they grow while records are decoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/buffer.h"
#include "core/fault.h"
#include "core/feature_values.h"
#include "core/fixed_numbers.h"
#include "core/schema.h"
#include "core/tensor_proto.h"
#include "core/wire.h"

namespace feedline {

// Which offsets there are depends on the feature. All are int64, begin with 0 and have one entry more than
// what they count: the strings in `data`, the steps in the values, the rows in the values or steps.
struct Column {
  Buffer data;     // numbers, or the bytes of strings back to back
  Buffer strings;  // strings only
  Buffer steps;    // feature lists of kVarLen only
  Buffer rows;     // whatever may differ in length from row to row
  Buffer dims;     // tensors of changing shape: the dimensions of each row
};

class ColumnBuilder {
 public:
  ColumnBuilder(const Feature& feature, bool in_list);

  void begin(size_t max_rows);

  // Each adds one row. When it cannot, it returns false, `fault()` says why, and `cut` must take back what
  // was added of the row. (A Fault returned by value would cost more than most rows.)
  bool add(wire::Cursor feature) {
    if (numbers_.apply()) [[likely]] {
      const size_t end = column_.data.size();
      column_.data.resize(end + row_bytes_);
      if (numbers_.read(feature, column_.data.data() + end)) [[likely]]
        return true;
      column_.data.resize(end);
    }
    return add_any(feature);
  }
  bool add_list(wire::Cursor feature_list);
  bool add_missing();
  // For a column of one string a row.
  void add_string(std::string_view text) { push_string(text); }
  void cut(size_t rows);

  Fault& fault() noexcept { return fault_; }
  Column finish(size_t rows);

 private:
  static constexpr size_t kAny = SIZE_MAX;

  bool add_any(wire::Cursor feature);
  bool add_raw(wire::Cursor feature);
  bool add_tensor(wire::Cursor feature);

  // Appends the values of one Feature, of which there must be `expected`, or any number; `added` is kAny when
  // the Feature has no kind.
  bool append(wire::Cursor feature, size_t expected, size_t& added);
  bool append_numbers(size_t expected, size_t& added);
  bool append_strings(size_t expected, size_t& added);
  bool single_string(wire::Cursor feature, std::string_view& value);

  bool malformed();
  bool wrong(std::string what);
  bool wrong_kind();
  bool wrong_count(size_t found, size_t expected);
  bool wrong_shape();

  uint8_t* grow_data(size_t bytes);
  void push_string(std::string_view text);
  size_t values_end(size_t rows) const noexcept;

  // What the short way needs comes first, to share a cache line or two: a record may have a hundred columns.
  const FixedNumbers numbers_;
  const bool in_list_;
  const bool strings_;      // the values are strings
  const bool same_length_;  // every row has feature_.count values
  const size_t item_size_;  // of a number
  const size_t row_bytes_;  // of a row of numbers, when same_length_
  Column column_;
  const Feature& feature_;
  Fault fault_;
  FeatureValues values_;
  TensorView tensor_;
  size_t data_hint_ = 0;  // what the last block needed, so that growing need not copy
};

}  // namespace feedline
