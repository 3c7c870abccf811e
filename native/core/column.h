// Rows of one feature, as they grow while records are decoded.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/buffer.h"
#include "core/fault.h"
#include "core/feature_values.h"
#include "core/schema.h"
#include "core/tensor_proto.h"
#include "core/wire.h"

namespace feedline {

// Which offsets there are depends on the feature. All are int64, begin with 0 and have one entry more than what
// they count: the strings in `data`, the steps in the values, the rows in the values or steps.
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

  // Each adds one row. After a fault, `cut` takes back what was added of it.
  Fault add(wire::Cursor feature);
  Fault add_list(wire::Cursor feature_list);
  Fault add_missing();
  void cut(size_t rows);

  Column finish(size_t rows);

 private:
  static constexpr size_t kAny = SIZE_MAX;

  // Appends the values of one Feature, of which there must be `expected`, or any number.
  Fault append(wire::Cursor feature, size_t expected, size_t& added);
  Fault append_numbers(size_t expected, size_t& added);
  Fault append_strings(size_t expected, size_t& added);
  Fault append_raw(wire::Cursor feature);
  Fault append_tensor(wire::Cursor feature);
  Fault single_string(wire::Cursor feature, std::string_view& value);
  Fault wrong_shape() const;
  Fault malformed() const;
  Fault wrong_count(size_t found, size_t expected) const;

  uint8_t* grow_data(size_t bytes);
  void push_string(std::string_view text);
  size_t values_end(size_t rows) const noexcept;

  const Feature& feature_;
  const bool in_list_;
  const bool strings_;      // the values are strings
  const bool same_length_;  // every row has feature_.count values
  const size_t item_size_;  // of a number
  Column column_;
  FeatureValues values_;
  TensorView tensor_;
  size_t data_hint_ = 0;  // what the last block needed, so that growing need not copy
};

}  // namespace feedline
