// Any records through ExampleDecoder, by schemas of every layout: the columns agree with each other, and a
// record that is refused leaves no trace.
//
// The first byte chooses the schema. The second says how many records there are, and whether what follows are
// their bytes or only those of the values in them: wrapped in messages and keys that hold, values are reached
// at once.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/example_decoder.h"
#include "core/row_table.h"
#include "core/tensor_proto.h"

namespace feedline {
namespace {

using Bytes = std::vector<uint8_t>;

void require(bool law) {
  if (!law) std::abort();
}

// --- schemas ---

Feature feature(const char* key, Layout layout, ValueKind kind, size_t count = 1, bool required = true) {
  Feature made;
  made.name = made.key = key;
  made.layout = layout;
  made.kind = kind;
  made.count = count;
  made.required = required;
  made.item_size = kind == ValueKind::kInt64   ? sizeof(int64_t)
                   : kind == ValueKind::kFloat ? sizeof(float)
                                               : 0;
  return made;
}

Feature with_default(Feature made) {
  made.has_default = true;
  if (made.item_size == 0) {
    made.default_strings.assign(made.count, "default");
  } else {
    made.default_numbers.assign(made.count * made.item_size, 7);
  }
  return made;
}

Feature raw(const char* key, size_t count, size_t item_size) {
  Feature made = feature(key, Layout::kRaw, ValueKind::kBytes, count);
  made.item_size = item_size;
  return made;
}

Feature tensor(const char* key, TensorType dtype, std::vector<int64_t> dims) {
  Feature made = feature(key, Layout::kTensor, ValueKind::kBytes);
  made.item_size = tensor_itemsize(dtype);
  made.tensor_dtype = dtype;
  for (int64_t dim : dims) made.count *= static_cast<size_t>(dim);
  made.dims = std::move(dims);
  return made;
}

const std::vector<std::shared_ptr<const Schema>>& schemas() {
  using enum Layout;
  using enum ValueKind;
  static const std::vector<std::shared_ptr<const Schema>> all = [] {
    const std::vector<Schema> made = {
        {{feature("a", kFixed, kInt64), feature("b", kFixed, kInt64, 3), feature("c", kFixed, kFloat, 2),
          feature("d", kFixed, kBytes, 2), feature("e", kFixed, kFloat, 0)},
         {}},
        {{with_default(feature("a", kFixed, kInt64)), with_default(feature("b", kFixed, kFloat, 2)),
          with_default(feature("c", kFixed, kBytes, 2)), with_default(feature("d", kFixed, kInt64, 0))},
         {}},
        {{feature("a", kVarLen, kInt64), feature("b", kVarLen, kFloat, 1, false),
          feature("c", kVarLen, kBytes, 1, false)},
         {}},
        {{feature("a", kSteps, kInt64, 2, false), feature("b", kSteps, kFloat, 3),
          feature("c", kSteps, kBytes, 2, false)},
         {}},
        {{raw("a", 4, 1), raw("b", 2, 2), tensor("c", kFloat32, {2, 2}), tensor("d", kString, {2}),
          tensor("e", kInt32, {})},
         {}},
        {{tensor("a", TensorType::kInt64, {-1, 2}), tensor("b", kString, {-1}),
          tensor("c", kComplex64, {-1, -1})},
         {}},
        {{feature("a", kFixed, kFloat, 40), raw("b", 200, 1), feature("c", kFixed, kBytes),
          with_default(feature("d", kFixed, kFloat, 40)), with_default(feature("e", kFixed, kBytes))},
         {}},
        // One key for several features; the others fail after it has been added.
        {{feature("a", kVarLen, kInt64, 1, false), feature("a", kFixed, kInt64),
          feature("a", kSteps, kInt64, 2)},
         {}},
        {{feature("a", kVarLen, kInt64, 1, false)},
         {feature("a", kSteps, kInt64, 2, false), feature("b", kSteps, kFloat),
          feature("c", kSteps, kBytes, 1, false)}},
        {{feature("a", kFixed, kBytes, 1)},
         {feature("a", kVarLen, kInt64, 1, false), feature("b", kVarLen, kFloat, 1, false),
          feature("c", kVarLen, kBytes)}},
    };
    std::vector<std::shared_ptr<const Schema>> shared;
    for (const Schema& schema : made) shared.push_back(std::make_shared<const Schema>(schema));
    return shared;
  }();
  return all;
}

// --- records ---

// Takes a stretch from the front: its size is the first byte, or all that is left for 255.
std::span<const uint8_t> take(std::span<const uint8_t>& bytes) {
  if (bytes.empty()) return {};
  const size_t wanted = bytes[0] == 255 ? SIZE_MAX : bytes[0];
  const auto taken = bytes.subspan(1, std::min(wanted, bytes.size() - 1));
  bytes = bytes.subspan(1 + taken.size());
  return taken;
}

Bytes field(uint8_t number, std::span<const uint8_t> content) {
  Bytes made = {static_cast<uint8_t>(number << 3 | 2)};
  size_t size = content.size();
  for (; size >= 0x80; size >>= 7) made.push_back(static_cast<uint8_t>(size | 0x80));
  made.push_back(static_cast<uint8_t>(size));
  made.insert(made.end(), content.begin(), content.end());
  return made;
}

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Each feature and list of the schema gets a stretch of the bytes as its value; a tensor as its proto.
Bytes wrapped(const Schema& schema, std::span<const uint8_t>& bytes) {
  const auto entries = [&](const std::vector<Feature>& features) {
    Bytes map;
    for (const Feature& of : features) {
      const auto value = take(bytes);
      const bool one_string = of.layout == Layout::kRaw || of.layout == Layout::kTensor;
      const Bytes inner = one_string ? field(1, field(1, value)) : Bytes(value.begin(), value.end());
      const std::span<const uint8_t> key(reinterpret_cast<const uint8_t*>(of.key.data()), of.key.size());
      map = joined(std::move(map), field(1, joined(field(1, key), field(2, inner))));
    }
    return map;
  };
  const Bytes context = field(1, entries(schema.features));
  return schema.lists.empty() ? context : joined(context, field(2, entries(schema.lists)));
}

// --- laws ---

// Offsets from 0, never falling, `counted` in number; gives the last.
size_t check_offsets(const Buffer& buffer, size_t counted) {
  require(buffer.size() == (counted + 1) * sizeof(int64_t));
  const auto* offsets = buffer.as<int64_t>();
  require(offsets[0] == 0);
  for (size_t i = 0; i < counted; ++i) require(offsets[i] <= offsets[i + 1]);
  return static_cast<size_t>(offsets[counted]);
}

void check_column(const Feature& of, bool in_list, const Column& column, size_t rows) {
  const bool tensor_of_any_shape =
      std::any_of(of.dims.begin(), of.dims.end(), [](int64_t dim) { return dim < 0; });
  size_t values = rows * of.count;
  if (in_list || of.layout == Layout::kVarLen || of.layout == Layout::kSteps || tensor_of_any_shape) {
    values = check_offsets(column.rows, rows);
    if (in_list && of.layout == Layout::kVarLen) {
      values = check_offsets(column.steps, values);
    } else {
      require(column.steps.size() == 0);
    }
    if (of.layout == Layout::kSteps) values *= of.count;
  } else {
    require(column.rows.size() == 0 && column.steps.size() == 0);
  }
  if (of.item_size == 0) {
    require(check_offsets(column.strings, values) == column.data.size());
  } else {
    require(column.strings.size() == 0 && column.data.size() == values * of.item_size);
  }
  require(column.dims.size() == (tensor_of_any_shape ? rows * of.dims.size() * sizeof(int64_t) : 0));
  if (!tensor_of_any_shape) return;
  const auto* dims = column.dims.as<int64_t>();
  for (size_t row = 0; row < rows; ++row) {
    int64_t elements = 1;
    for (size_t i = 0; i < of.dims.size(); ++i) elements *= *dims++;
    const auto* ends = column.rows.as<int64_t>() + row;
    require(elements == ends[1] - ends[0]);
  }
}

struct Decoded {
  std::vector<Column> columns;
  std::vector<bool> taken;
};

Decoded decode(ExampleDecoder& decoder, const Schema& schema, const std::vector<Bytes>& records) {
  Decoded decoded;
  decoder.begin(records.size());
  size_t rows = 0;
  for (const Bytes& record : records) {
    const bool taken = decoder.add(record);
    decoded.taken.push_back(taken);
    rows += taken;
    require(decoder.rows() == rows);
    if (taken) continue;
    const Fault& fault = decoder.fault();
    require(fault.kind == FaultKind::kCorrupt ||
            (fault.kind == FaultKind::kSchema && !fault.feature.empty()));
    require(!fault.what.empty());
  }
  decoded.columns = decoder.finish();
  require(decoded.columns.size() == schema.features.size() + schema.lists.size());
  for (size_t i = 0; i < decoded.columns.size(); ++i) {
    const bool in_list = i >= schema.features.size();
    const Feature& of = in_list ? schema.lists[i - schema.features.size()] : schema.features[i];
    check_column(of, in_list, decoded.columns[i], rows);
  }
  return decoded;
}

// The same by way of a RowTable, and of a copy of it.
Decoded by_rows(const std::shared_ptr<const Schema>& schema, const RowLayout& layout,
                const std::vector<Bytes>& records) {
  Decoded decoded;
  RowDecoder decoder(schema, layout);
  decoder.begin(records.size());
  for (const Bytes& record : records) decoded.taken.push_back(decoder.add(record));
  const RowTable table = decoder.finish();
  std::vector<int64_t> picks(table.rows);
  std::iota(picks.begin(), picks.end(), 0);
  const RowTable* tables[] = {&table};
  RowTable copy;
  require(!copy_rows(layout, tables, picks, copy));
  const RowTable* copies[] = {&copy};
  require(!pick_columns(layout, copies, picks, decoded.columns));
  return decoded;
}

void require_same(const Decoded& a, const Decoded& b) {
  require(a.columns.size() == b.columns.size());
  for (size_t i = 0; i < a.columns.size(); ++i) {
    for (auto part : {&Column::data, &Column::strings, &Column::steps, &Column::rows, &Column::dims}) {
      const auto x = (a.columns[i].*part).bytes(), y = (b.columns[i].*part).bytes();
      require(std::equal(x.begin(), x.end(), y.begin(), y.end()));
    }
  }
}

}  // namespace
}  // namespace feedline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace feedline;
  if (size < 2) return 0;
  const auto& schema = schemas()[data[0] % schemas().size()];
  std::span<const uint8_t> rest = std::span(data, size).subspan(2);
  std::vector<Bytes> records;
  for (size_t left = 1 + data[1] % 3; left > 0; --left) {
    if (data[1] < 128) {
      records.push_back(wrapped(*schema, rest));
    } else {
      const auto record = take(rest);
      records.emplace_back(record.begin(), record.end());
    }
  }
  if ((data[1] & 64) != 0) records.push_back(records.front());  // now the order of its keys is expected

  ExampleDecoder decoder(schema);
  const Decoded all = decode(decoder, *schema, records);

  // A fresh decoder takes the same records alike, and without those that were refused gives the same columns.
  std::vector<Bytes> taken;
  for (size_t i = 0; i < records.size(); ++i) {
    if (all.taken[i]) taken.push_back(records[i]);
  }
  ExampleDecoder fresh(schema);
  const Decoded clean = decode(fresh, *schema, taken);
  require(std::find(clean.taken.begin(), clean.taken.end(), false) == clean.taken.end());
  require_same(all, clean);
  // Also when it has learned from them.
  require_same(all, decode(decoder, *schema, taken));
  if (const auto layout = RowLayout::of(*schema)) require_same(all, by_rows(schema, *layout, records));
  return 0;
}
