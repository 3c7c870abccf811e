#include "core/column.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace feedline {

using wire::Cursor;

namespace {

const char* kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kBytes:
      return "bytes";
    case ValueKind::kFloat:
      return "float32";
    case ValueKind::kInt64:
      return "int64";
    case ValueKind::kNone:
      break;
  }
  return "no";
}

void push(Buffer& offsets, size_t value) {
  const size_t end = offsets.size();
  offsets.resize(end + sizeof(int64_t));
  const auto wide = static_cast<int64_t>(value);
  std::memcpy(offsets.data() + end, &wide, sizeof wide);
}

// Room for `entries` offsets, holding the first: 0.
Buffer new_offsets(size_t entries) {
  Buffer offsets(entries * sizeof(int64_t));
  offsets.resize(0);
  push(offsets, 0);
  return offsets;
}

size_t entry(const Buffer& offsets, size_t index) {
  return static_cast<size_t>(offsets.as<int64_t>()[index]);
}

size_t last(const Buffer& offsets) { return entry(offsets, offsets.size() / sizeof(int64_t) - 1); }

void cut_offsets(Buffer& offsets, size_t counted) { offsets.resize((counted + 1) * sizeof(int64_t)); }

bool one_shape(const Feature& feature) {
  return std::all_of(feature.dims.begin(), feature.dims.end(), [](int64_t dim) { return dim >= 0; });
}

}  // namespace

ColumnBuilder::ColumnBuilder(const Feature& feature, bool in_list)
    : numbers_(feature, in_list),
      in_list_(in_list),
      strings_(feature.item_size == 0),
      same_length_(!in_list && (feature.layout == Layout::kFixed || feature.layout == Layout::kRaw ||
                                (feature.layout == Layout::kTensor && one_shape(feature)))),
      item_size_(feature.item_size),
      row_bytes_(feature.count * feature.item_size),
      feature_(feature) {}

void ColumnBuilder::begin(size_t max_rows) {
  column_ = Column{};
  size_t data = data_hint_;
  if (same_length_ && !strings_) data = max_rows * row_bytes_;
  column_.data = Buffer(data);
  column_.data.resize(0);
  if (strings_) column_.strings = new_offsets(same_length_ ? max_rows * feature_.count + 1 : max_rows + 1);
  if (in_list_ && feature_.layout == Layout::kVarLen) column_.steps = new_offsets(max_rows + 1);
  if (!same_length_) column_.rows = new_offsets(max_rows + 1);
}

bool ColumnBuilder::add_any(Cursor feature) {
  if (feature_.layout == Layout::kRaw) return add_raw(feature);
  if (feature_.layout == Layout::kTensor) return add_tensor(feature);
  size_t added = 0;
  if (!append(feature, same_length_ ? feature_.count : kAny, added)) return false;
  if (added == kAny) return add_missing();
  if (same_length_) return true;
  const size_t per_step = feature_.layout == Layout::kSteps ? feature_.count : 1;
  if (per_step == 0 || added % per_step != 0) {
    return wrong("holds " + std::to_string(added) + " values, but each step needs " +
                 std::to_string(per_step));
  }
  push(column_.rows, last(column_.rows) + added / per_step);
  return true;
}

bool ColumnBuilder::add_list(Cursor feature_list) {
  size_t steps = 0;
  while (!feature_list.done()) {
    uint32_t tag = 0;
    if (!wire::read_tag(feature_list, tag)) return malformed();
    if (tag != wire::tag(1, wire::kDelimited)) {
      if (!wire::skip_field(feature_list, tag)) return malformed();
      continue;
    }
    Cursor feature;
    if (!wire::read_delimited(feature_list, feature)) return malformed();
    size_t added = 0;
    if (feature_.layout == Layout::kSteps) {
      if (!append(feature, feature_.count, added)) return false;
      if (added == kAny) return wrong_count(0, feature_.count);
    } else {
      if (!append(feature, kAny, added)) return false;
      push(column_.steps, last(column_.steps) + (added == kAny ? 0 : added));
    }
    ++steps;
  }
  push(column_.rows, last(column_.rows) + steps);
  return true;
}

bool ColumnBuilder::add_missing() {
  if (!same_length_) {
    if (feature_.required || feature_.layout == Layout::kTensor) return wrong("is missing");
    push(column_.rows, last(column_.rows));
    return true;
  }
  if (!feature_.has_default) return wrong("is missing, and has no default value");
  if (strings_) {
    for (const std::string& text : feature_.default_strings) push_string(text);
  } else if (!feature_.default_numbers.empty()) {
    const std::vector<uint8_t>& numbers = feature_.default_numbers;
    std::memcpy(grow_data(numbers.size()), numbers.data(), numbers.size());
  }
  return true;
}

bool ColumnBuilder::append(Cursor feature, size_t expected, size_t& added) {
  if (!values_.parse(feature)) return malformed();
  if (values_.kind() == ValueKind::kNone) {
    added = kAny;
    return true;
  }
  if (values_.kind() != feature_.kind) return wrong_kind();
  return strings_ ? append_strings(expected, added) : append_numbers(expected, added);
}

bool ColumnBuilder::append_numbers(size_t expected, size_t& added) {
  if (!values_.count(added)) return malformed();
  if (expected != kAny && added != expected) return wrong_count(added, expected);
  if (added == 0) return true;
  uint8_t* const out = grow_data(added * item_size_);
  const bool sound = feature_.kind == ValueKind::kFloat ? values_.copy(reinterpret_cast<float*>(out))
                                                        : values_.copy(reinterpret_cast<int64_t*>(out));
  return sound || malformed();
}

bool ColumnBuilder::append_strings(size_t expected, size_t& added) {
  added = 0;
  const bool sound = values_.each_string([&](std::string_view text) {
    push_string(text);
    ++added;
  });
  if (!sound) return malformed();
  return expected == kAny || added == expected || wrong_count(added, expected);
}

bool ColumnBuilder::single_string(Cursor feature, std::string_view& value) {
  if (!values_.parse(feature)) return malformed();
  if (values_.kind() == ValueKind::kNone) return wrong("is missing, and has no default value");
  if (values_.kind() != ValueKind::kBytes) return wrong_kind();
  size_t found = 0;
  const bool sound = values_.each_string([&](std::string_view text) {
    value = text;
    ++found;
  });
  if (!sound) return malformed();
  return found == 1 || wrong_count(found, 1);
}

bool ColumnBuilder::add_raw(Cursor feature) {
  std::string_view value;
  if (!single_string(feature, value)) return false;
  if (value.size() != row_bytes_) {
    return wrong("holds " + std::to_string(value.size()) + " bytes, but its shape and dtype need " +
                 std::to_string(row_bytes_));
  }
  if (row_bytes_ != 0) std::memcpy(grow_data(row_bytes_), value.data(), row_bytes_);
  return true;
}

bool ColumnBuilder::add_tensor(Cursor feature) {
  std::string_view value;
  if (!single_string(feature, value)) return false;
  const std::span<const uint8_t> proto(reinterpret_cast<const uint8_t*>(value.data()), value.size());
  fault_ = parse_tensor(proto, tensor_, same_length_ ? feature_.count : 0);
  if (fault_) {
    fault_.feature = feature_.name;
    return false;
  }
  if (tensor_.dtype != feature_.tensor_dtype) {
    return wrong(std::string("holds a tensor of ") + dtype_name(tensor_.dtype) + ", but " +
                 dtype_name(feature_.tensor_dtype) + " is expected");
  }
  const auto fits = [](int64_t found, int64_t expected) { return expected < 0 || found == expected; };
  if (!std::equal(tensor_.dims.begin(), tensor_.dims.end(), feature_.dims.begin(), feature_.dims.end(),
                  fits)) {
    return wrong_shape();
  }
  if (strings_) {
    for (uint64_t i = 0; i < tensor_.elements; ++i) push_string(tensor_.string(i));
  } else if (tensor_.elements != 0) {
    fill(tensor_, grow_data(tensor_.size_bytes()));
  }
  if (same_length_) return true;
  push(column_.rows, last(column_.rows) + static_cast<size_t>(tensor_.elements));
  for (int64_t dim : tensor_.dims) push(column_.dims, static_cast<size_t>(dim));
  return true;
}

bool ColumnBuilder::malformed() {
  fault_ = Fault::corrupt("the protobuf message is malformed");
  fault_.feature = feature_.name;
  return false;
}

bool ColumnBuilder::wrong(std::string what) {
  fault_ = Fault::schema(std::move(what), feature_.name);
  return false;
}

bool ColumnBuilder::wrong_kind() {
  return wrong(std::string("holds ") + kind_name(values_.kind()) + " values, but " +
               kind_name(feature_.kind) +
               (feature_.kind == ValueKind::kBytes ? " are expected" : " is expected"));
}

bool ColumnBuilder::wrong_count(size_t found, size_t expected) {
  return wrong("holds " + std::to_string(found) + (found == 1 ? " value, but " : " values, but ") +
               std::to_string(expected) + (expected == 1 ? " is expected" : " are expected") +
               (in_list_ ? " in each step" : ""));
}

bool ColumnBuilder::wrong_shape() {
  const auto text = [](const std::vector<int64_t>& dims) {
    std::string shape;
    for (int64_t dim : dims) shape += (shape.empty() ? "" : ", ") + (dim < 0 ? "None" : std::to_string(dim));
    return "[" + shape + "]";
  };
  return wrong("holds a tensor of shape " + text(tensor_.dims) + ", but " + text(feature_.dims) +
               " is expected");
}

uint8_t* ColumnBuilder::grow_data(size_t bytes) {
  const size_t end = column_.data.size();
  column_.data.resize(end + bytes);
  return column_.data.data() + end;
}

void ColumnBuilder::push_string(std::string_view text) {
  if (!text.empty()) std::memcpy(grow_data(text.size()), text.data(), text.size());
  push(column_.strings, column_.data.size());
}

size_t ColumnBuilder::values_end(size_t rows) const noexcept {
  if (same_length_) return rows * feature_.count;
  size_t end = entry(column_.rows, rows);
  if (column_.steps.size() != 0) end = entry(column_.steps, end);
  if (feature_.layout == Layout::kSteps) end *= feature_.count;
  return end;
}

void ColumnBuilder::cut(size_t rows) {
  if (!same_length_) cut_offsets(column_.rows, rows);
  if (column_.steps.size() != 0) cut_offsets(column_.steps, entry(column_.rows, rows));
  const size_t values = values_end(rows);
  if (strings_) {
    cut_offsets(column_.strings, values);
    column_.data.resize(last(column_.strings));
  } else {
    column_.data.resize(values * item_size_);
  }
  if (!one_shape(feature_)) column_.dims.resize(rows * feature_.dims.size() * sizeof(int64_t));
}

Column ColumnBuilder::finish(size_t rows) {
  cut(rows);
  data_hint_ = std::max(data_hint_, column_.data.size());
  return std::move(column_);
}

}  // namespace feedline
