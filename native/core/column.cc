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
    : feature_(feature),
      in_list_(in_list),
      strings_(feature.item_size == 0),
      same_length_(!in_list && (feature.layout == Layout::kFixed || feature.layout == Layout::kRaw ||
                                (feature.layout == Layout::kTensor && one_shape(feature)))),
      item_size_(feature.item_size) {}

void ColumnBuilder::begin(size_t max_rows) {
  column_ = Column{};
  size_t data = data_hint_;
  if (same_length_ && !strings_) data = max_rows * feature_.count * item_size_;
  column_.data = Buffer(data);
  column_.data.resize(0);
  if (strings_) column_.strings = new_offsets(same_length_ ? max_rows * feature_.count + 1 : max_rows + 1);
  if (in_list_ && feature_.layout == Layout::kVarLen) column_.steps = new_offsets(max_rows + 1);
  if (!same_length_) column_.rows = new_offsets(max_rows + 1);
}

Fault ColumnBuilder::add(Cursor feature) {
  if (feature_.layout == Layout::kRaw) return append_raw(feature);
  if (feature_.layout == Layout::kTensor) return append_tensor(feature);
  size_t added = 0;
  if (same_length_) {
    Fault fault = append(feature, feature_.count, added);
    // A Feature with no kind set counts as missing, as in TensorFlow.
    if (!fault && added == kAny) return add_missing();
    return fault;
  }
  if (Fault fault = append(feature, kAny, added)) return fault;
  if (added == kAny) return add_missing();
  const size_t per_step = feature_.layout == Layout::kSteps ? feature_.count : 1;
  if (per_step == 0 || added % per_step != 0) {
    return Fault::schema("holds " + std::to_string(added) + " values, but each step needs " + std::to_string(per_step),
                         feature_.name);
  }
  push(column_.rows, last(column_.rows) + added / per_step);
  return {};
}

Fault ColumnBuilder::add_list(Cursor feature_list) {
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
      if (Fault fault = append(feature, feature_.count, added)) return fault;
      if (added == kAny && feature_.count != 0) return wrong_count(0, feature_.count);
    } else {
      if (Fault fault = append(feature, kAny, added)) return fault;
      push(column_.steps, last(column_.steps) + (added == kAny ? 0 : added));
    }
    ++steps;
  }
  push(column_.rows, last(column_.rows) + steps);
  return {};
}

Fault ColumnBuilder::add_missing() {
  if (!same_length_) {
    if (feature_.required) return Fault::schema("is missing", feature_.name);
    push(column_.rows, last(column_.rows));
    return {};
  }
  if (!feature_.has_default) return Fault::schema("is missing, and has no default value", feature_.name);
  if (strings_) {
    for (const std::string& text : feature_.default_strings) push_string(text);
  } else {
    const std::vector<uint8_t>& numbers = feature_.default_numbers;
    if (!numbers.empty()) std::memcpy(grow_data(numbers.size()), numbers.data(), numbers.size());
  }
  return {};
}

// The usual columns first: `append` sets `added` to kAny when the Feature has no kind.
Fault ColumnBuilder::append(Cursor feature, size_t expected, size_t& added) {
  if (!values_.parse(feature)) return malformed();
  if (values_.kind() != feature_.kind) [[unlikely]] {
    if (values_.kind() == ValueKind::kNone) {
      added = kAny;
      return {};
    }
    return Fault::schema(std::string("holds ") + kind_name(values_.kind()) + " values, but " +
                             kind_name(feature_.kind) + " are expected",
                         feature_.name);
  }
  return strings_ ? append_strings(expected, added) : append_numbers(expected, added);
}

Fault ColumnBuilder::append_numbers(size_t expected, size_t& added) {
  if (!values_.count(added)) return malformed();
  if (expected != kAny && added != expected) return wrong_count(added, expected);
  if (added == 0) return {};
  uint8_t* const out = grow_data(added * item_size_);
  const bool sound = feature_.kind == ValueKind::kFloat ? values_.copy(reinterpret_cast<float*>(out))
                                                        : values_.copy(reinterpret_cast<int64_t*>(out));
  return sound ? Fault{} : malformed();
}

Fault ColumnBuilder::append_strings(size_t expected, size_t& added) {
  added = 0;
  const bool sound = values_.each_string([&](std::string_view text) {
    push_string(text);
    ++added;
  });
  if (!sound) return malformed();
  if (expected != kAny && added != expected) return wrong_count(added, expected);
  return {};
}

Fault ColumnBuilder::single_string(Cursor feature, std::string_view& value) {
  if (!values_.parse(feature)) return malformed();
  if (values_.kind() == ValueKind::kNone) return Fault::schema("is missing, and has no default value", feature_.name);
  if (values_.kind() != ValueKind::kBytes) {
    return Fault::schema(std::string("holds ") + kind_name(values_.kind()) + " values, but bytes are expected",
                         feature_.name);
  }
  size_t found = 0;
  const bool sound = values_.each_string([&](std::string_view text) {
    value = text;
    ++found;
  });
  if (!sound) return malformed();
  return found == 1 ? Fault{} : wrong_count(found, 1);
}

Fault ColumnBuilder::append_raw(Cursor feature) {
  std::string_view value;
  if (Fault fault = single_string(feature, value)) return fault;
  const size_t expected = feature_.count * item_size_;
  if (value.size() != expected) {
    return Fault::schema(
        "holds " + std::to_string(value.size()) + " bytes, but its shape and dtype need " + std::to_string(expected),
        feature_.name);
  }
  if (expected != 0) std::memcpy(grow_data(expected), value.data(), expected);
  return {};
}

Fault ColumnBuilder::append_tensor(Cursor feature) {
  std::string_view value;
  if (Fault fault = single_string(feature, value)) return fault;
  const std::span<const uint8_t> proto(reinterpret_cast<const uint8_t*>(value.data()), value.size());
  if (Fault fault = parse_tensor(proto, tensor_, same_length_ ? feature_.count : 0)) {
    fault.feature = feature_.name;
    return fault;
  }
  if (tensor_.dtype != feature_.tensor_dtype) {
    return Fault::schema(std::string("holds a tensor of ") + dtype_name(tensor_.dtype) + ", but " +
                             dtype_name(feature_.tensor_dtype) + " is expected",
                         feature_.name);
  }
  const auto fits = [](int64_t found, int64_t expected) { return expected < 0 || found == expected; };
  if (!std::equal(tensor_.dims.begin(), tensor_.dims.end(), feature_.dims.begin(), feature_.dims.end(), fits)) {
    return wrong_shape();
  }
  if (strings_) {
    for (uint64_t i = 0; i < tensor_.elements; ++i) push_string(tensor_.string(i));
  } else if (tensor_.elements != 0) {
    fill(tensor_, grow_data(tensor_.size_bytes()));
  }
  if (same_length_) return {};
  push(column_.rows, last(column_.rows) + static_cast<size_t>(tensor_.elements));
  for (int64_t dim : tensor_.dims) push(column_.dims, static_cast<size_t>(dim));
  return {};
}

Fault ColumnBuilder::wrong_shape() const {
  const auto text = [](const std::vector<int64_t>& dims) {
    std::string shape;
    for (int64_t dim : dims) shape += (shape.empty() ? "" : ", ") + (dim < 0 ? "None" : std::to_string(dim));
    return "[" + shape + "]";
  };
  return Fault::schema("holds a tensor of shape " + text(tensor_.dims) + ", but " + text(feature_.dims) + " is expected",
                       feature_.name);
}

Fault ColumnBuilder::malformed() const {
  Fault fault = Fault::corrupt("the protobuf message is malformed");
  fault.feature = feature_.name;
  return fault;
}

Fault ColumnBuilder::wrong_count(size_t found, size_t expected) const {
  return Fault::schema("holds " + std::to_string(found) + (found == 1 ? " value, but " : " values, but ") +
                           std::to_string(expected) + (in_list_ ? " are expected in each step" : " are expected"),
                       feature_.name);
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
