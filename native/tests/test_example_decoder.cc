#include <algorithm>
#include <string>

#include "core/example_decoder.h"
#include "core/tensor_proto.h"
#include "tests/check.h"
#include "tests/samples.h"

namespace feedline {
namespace {

using namespace samples;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

// --- schemas ---

Feature feature(std::string key, Layout layout, ValueKind kind, size_t count = 1) {
  Feature made;
  made.name = key;
  made.key = std::move(key);
  made.layout = layout;
  made.kind = kind;
  made.count = count;
  made.required = layout == Layout::kFixed;
  made.item_size = kind == ValueKind::kInt64   ? sizeof(int64_t)
                   : kind == ValueKind::kFloat ? sizeof(float)
                                               : 0;
  return made;
}
Feature raw(std::string key, size_t count, size_t item_size) {
  Feature made = feature(std::move(key), Layout::kRaw, ValueKind::kBytes, count);
  made.item_size = item_size;
  made.required = true;
  return made;
}
Feature tensor(std::string key, TensorType dtype, std::vector<int64_t> dims) {
  Feature made = feature(std::move(key), Layout::kTensor, ValueKind::kBytes);
  made.item_size = tensor_itemsize(dtype);
  made.tensor_dtype = dtype;
  for (int64_t dim : dims) made.count *= static_cast<size_t>(dim);
  made.dims = std::move(dims);
  made.required = true;
  return made;
}
Feature needed(Feature feature) {
  feature.required = true;
  return feature;
}

constexpr auto kInts = ValueKind::kInt64;
constexpr auto kFloats = ValueKind::kFloat;
constexpr auto kStrings = ValueKind::kBytes;

// --- decoding ---

struct Decoded {
  size_t rows = 0;
  std::vector<Column> columns;
  std::vector<Fault> faults;  // one for each record that made no row
};

Decoded decode(ExampleDecoder& decoder, const std::vector<Bytes>& records) {
  Decoded decoded;
  decoder.begin(records.size());
  for (const Bytes& record : records) {
    if (!decoder.add(record)) decoded.faults.push_back(std::move(decoder.fault()));
  }
  decoded.rows = decoder.rows();
  decoded.columns = decoder.finish();
  return decoded;
}

std::shared_ptr<const Schema> schema_of(std::vector<Feature> features, std::vector<Feature> lists = {}) {
  return std::make_shared<const Schema>(Schema{std::move(features), std::move(lists)});
}

Decoded decode(std::vector<Feature> features, const std::vector<Bytes>& records) {
  ExampleDecoder decoder(schema_of(std::move(features)));
  return decode(decoder, records);
}

Decoded decode_lists(std::vector<Feature> lists, const std::vector<Bytes>& records) {
  ExampleDecoder decoder(schema_of({}, std::move(lists)));
  return decode(decoder, records);
}

template <class T>
std::vector<T> values(const Buffer& buffer) {
  CHECK_EQ(buffer.size() % sizeof(T), 0);
  std::vector<T> out(buffer.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), buffer.data(), buffer.size());
  return out;
}
Ints ints_in(const Buffer& buffer) { return values<int64_t>(buffer); }
Floats floats_in(const Buffer& buffer) { return values<float>(buffer); }

std::vector<std::string> strings_in(const Column& column) {
  const Ints offsets = ints_in(column.strings);
  std::vector<std::string> out;
  if (!CHECK(!offsets.empty() && offsets.front() == 0)) return out;
  if (!CHECK_EQ(offsets.back(), column.data.size())) return out;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (!CHECK(offsets[i] <= offsets[i + 1])) break;
    out.emplace_back(column.data.as<char>() + offsets[i], column.data.as<char>() + offsets[i + 1]);
  }
  return out;
}
using Strings = std::vector<std::string>;

// One int64 a row under the key "a": the shortest schema in which order and merging show.
Ints fixed_ints(const std::vector<Bytes>& records) {
  const Decoded decoded = decode({feature("a", Layout::kFixed, kInts)}, records);
  CHECK(decoded.faults.empty());
  CHECK_EQ(decoded.rows, records.size());
  return ints_in(decoded.columns[0].data);
}

// The fault of the only record.
Fault fault_of(std::vector<Feature> features, const Bytes& record) {
  Decoded decoded = decode(std::move(features), {record});
  CHECK_EQ(decoded.rows, 0);
  if (!CHECK_EQ(decoded.faults.size(), 1)) return {};
  return decoded.faults[0];
}

void check_fault(const Fault& fault, FaultKind kind, const std::string& what, const std::string& name) {
  CHECK_EQ(fault.kind, kind);
  CHECK_EQ(fault.what, what);
  CHECK_EQ(fault.feature, name);
}

const Bytes kUnknown = Bytes{0x28, 0x05} + Bytes{0x31, 1, 2, 3, 4, 5, 6, 7, 8} + field(7, text("unknown")) +
                       Bytes{0x43, 0x0b, 0x08, 0x07, 0x0c, 0x44} + Bytes{0x4d, 1, 2, 3, 4};

// --- one layout after another ---

TEST(fixed_features_fill_dense_columns) {
  const Bytes row = example(entry("i", ints({1, -2})) + entry("f", floats({1.5f, 2.5f, 3.5f})) +
                            entry("s", strings({"x", "yz"})));
  const Bytes other = example(entry("i", ints({3, int64_t{1} << 62})) + entry("f", floats({4, 5, 6})) +
                              entry("s", strings({"", "w"})));
  const Decoded decoded =
      decode({feature("i", Layout::kFixed, kInts, 2), feature("f", Layout::kFixed, kFloats, 3),
              feature("s", Layout::kFixed, kStrings, 2)},
             {row, other});
  CHECK_EQ(decoded.rows, 2);
  CHECK(ints_in(decoded.columns[0].data) == Ints({1, -2, 3, int64_t{1} << 62}));
  CHECK(floats_in(decoded.columns[1].data) == Floats({1.5f, 2.5f, 3.5f, 4, 5, 6}));
  CHECK(strings_in(decoded.columns[2]) == Strings({"x", "yz", "", "w"}));
  for (const Column& column : decoded.columns) CHECK(column.rows.size() == 0 && column.steps.size() == 0);
}

TEST(one_int64_is_read_whatever_its_length) {
  Ints expected;
  std::vector<Bytes> records;
  for (int bits = 0; bits < 64; ++bits) {
    for (int64_t value : {int64_t(uint64_t{1} << bits), int64_t((uint64_t{1} << bits) - 1)}) {
      for (const Bytes& list : {packed_ints({value}), single_ints({value})}) {
        expected.push_back(value);
        records.push_back(example(entry("a", int64_list(list))));
      }
    }
  }
  CHECK(fixed_ints(records) == expected);
}

TEST(one_int64_may_be_written_longer_than_it_needs_be) {
  const Bytes long_five{0x85, 0x80, 0x80, 0x00}, very_long = Bytes{0x85} + Bytes(8, 0x80) + Bytes{0x00};
  CHECK(fixed_ints({example(entry("a", int64_list(field(1, long_five)))),
                    example(entry("a", int64_list(field(1, very_long))))}) == Ints({5, 5}));
}

TEST(the_shortest_record_is_read_within_its_bounds) {
  // The key is empty and left out: nothing stands in front of the value but tags and sizes.
  const Bytes record = field(1, field(1, field(2, ints({7}))));
  const Decoded decoded = decode({feature("", Layout::kFixed, kInts)}, {record});
  CHECK(ints_in(decoded.columns[0].data) == Ints({7}));
}

TEST(var_len_features_have_offsets) {
  const Decoded decoded =
      decode({feature("i", Layout::kVarLen, kInts), feature("f", Layout::kVarLen, kFloats),
              feature("s", Layout::kVarLen, kStrings)},
             {example(entry("i", ints({1, 2})) + entry("f", floats({1})) + entry("s", strings({"a", "bc"}))),
              example({}), example(entry("i", ints({})) + entry("f", {}) + entry("s", strings({}))),
              example(entry("i", ints({3})) + entry("f", floats({2, 3})) + entry("s", strings({"d"})))});
  CHECK_EQ(decoded.rows, 4);
  CHECK(ints_in(decoded.columns[0].data) == Ints({1, 2, 3}));
  CHECK(ints_in(decoded.columns[0].rows) == Ints({0, 2, 2, 2, 3}));
  CHECK(floats_in(decoded.columns[1].data) == Floats({1, 2, 3}));
  CHECK(ints_in(decoded.columns[1].rows) == Ints({0, 1, 1, 1, 3}));
  CHECK(strings_in(decoded.columns[2]) == Strings({"a", "bc", "d"}));
  CHECK(ints_in(decoded.columns[2].rows) == Ints({0, 2, 2, 2, 3}));
}

TEST(steps_count_whole_steps) {
  const Decoded decoded =
      decode({feature("i", Layout::kSteps, kInts, 2), feature("s", Layout::kSteps, kStrings, 2)},
             {example(entry("i", ints({1, 2, 3, 4})) + entry("s", strings({"a", "b"}))), example({}),
              example(entry("i", ints({5, 6})) + entry("s", strings({"c", "d", "e", "f"})))});
  CHECK(ints_in(decoded.columns[0].data) == Ints({1, 2, 3, 4, 5, 6}));
  CHECK(ints_in(decoded.columns[0].rows) == Ints({0, 2, 2, 3}));
  CHECK(strings_in(decoded.columns[1]) == Strings({"a", "b", "c", "d", "e", "f"}));
  CHECK(ints_in(decoded.columns[1].rows) == Ints({0, 1, 1, 3}));
  check_fault(fault_of({feature("i", Layout::kSteps, kInts, 2)}, example(entry("i", ints({1, 2, 3})))),
              FaultKind::kSchema, "holds 3 values, but each step needs 2", "i");
}

TEST(raw_bytes_become_the_array_itself) {
  const Decoded decoded =
      decode({raw("r", 2, sizeof(float))}, {example(entry("r", string_of(memory({1.5f, 2.5f})))),
                                            example(entry("r", string_of(memory({3.5f, 4.5f}))))});
  CHECK(floats_in(decoded.columns[0].data) == Floats({1.5f, 2.5f, 3.5f, 4.5f}));
  check_fault(fault_of({raw("r", 2, 4)}, example(entry("r", strings({"1234567"})))), FaultKind::kSchema,
              "holds 7 bytes, but its shape and dtype need 8", "r");
  check_fault(fault_of({raw("r", 2, 4)}, example(entry("r", strings({"1234", "5678"})))), FaultKind::kSchema,
              "holds 2 values, but 1 is expected", "r");
  check_fault(fault_of({raw("r", 2, 4)}, example(entry("r", ints({1})))), FaultKind::kSchema,
              "holds int64 values, but bytes are expected", "r");
  check_fault(fault_of({raw("r", 2, 4)}, example({})), FaultKind::kSchema,
              "is missing, and has no default value", "r");
}

TEST(features_of_no_values_make_rows_of_no_bytes) {
  for (ValueKind kind : {kInts, kFloats, kStrings}) {
    const Bytes list = field(static_cast<uint32_t>(kind), {});
    const Decoded decoded = decode({feature("z", Layout::kFixed, kind, 0)},
                                   {example(entry("z", list)), example(entry("z", list))});
    CHECK_EQ(decoded.rows, 2);
    CHECK_EQ(decoded.columns[0].data.size(), 0);
  }
  CHECK_EQ(decode({feature("z", Layout::kFixed, kFloats, 0)}, {example(entry("z", floats({})))}).rows, 1);
  CHECK_EQ(decode({raw("z", 0, 4)}, {example(entry("z", strings({""})))}).rows, 1);
}

// --- tensors ---

Bytes shape(std::initializer_list<int64_t> dims) {
  Bytes proto;
  for (int64_t dim : dims) proto += field(2, Bytes{0x08} + varint(static_cast<uint64_t>(dim)));
  return field(2, proto);
}
Bytes tensor_proto(TensorType dtype, std::initializer_list<int64_t> dims, const Bytes& content) {
  return Bytes{0x08, static_cast<uint8_t>(dtype)} + shape(dims) + field(4, content);
}
Bytes tensor_row(const Bytes& proto) { return example(entry("t", string_of(proto))); }

TEST(tensors_of_one_shape_are_dense) {
  const Decoded decoded = decode({tensor("t", kFloat32, {2, 2})},
                                 {tensor_row(tensor_proto(kFloat32, {2, 2}, memory({1.f, 2.f, 3.f, 4.f}))),
                                  tensor_row(Bytes{0x08, 0x01} + shape({2, 2}) + field(5, memory({7.f})))});
  CHECK_EQ(decoded.rows, 2);
  CHECK(floats_in(decoded.columns[0].data) == Floats({1, 2, 3, 4, 7, 7, 7, 7}));
  CHECK_EQ(decoded.columns[0].rows.size() + decoded.columns[0].dims.size(), 0);
}

TEST(tensors_of_changing_shape_bring_their_dimensions) {
  const Decoded decoded = decode(
      {tensor("t", kInt64, {-1, 2})},
      {tensor_row(tensor_proto(kInt64, {1, 2}, memory({int64_t{1}, int64_t{2}}))),
       tensor_row(Bytes{0x08, 0x09} + shape({0, 2})),
       tensor_row(tensor_proto(kInt64, {2, 2}, memory({int64_t{3}, int64_t{4}, int64_t{5}, int64_t{6}})))});
  CHECK_EQ(decoded.rows, 3);
  CHECK(ints_in(decoded.columns[0].data) == Ints({1, 2, 3, 4, 5, 6}));
  CHECK(ints_in(decoded.columns[0].rows) == Ints({0, 2, 2, 6}));
  CHECK(ints_in(decoded.columns[0].dims) == Ints({1, 2, 0, 2, 2, 2}));
}

TEST(tensors_of_strings_have_offsets) {
  const Bytes two = Bytes{0x08, 0x07} + shape({2}) + field(8, text("ab")) + field(8, text("c"));
  const Decoded fixed = decode({tensor("t", kString, {2})}, {tensor_row(two), tensor_row(two)});
  CHECK(strings_in(fixed.columns[0]) == Strings({"ab", "c", "ab", "c"}));
  const Bytes one = Bytes{0x08, 0x07} + shape({1}) + field(8, text("d"));
  const Decoded any = decode({tensor("t", kString, {-1})}, {tensor_row(two), tensor_row(one)});
  CHECK(strings_in(any.columns[0]) == Strings({"ab", "c", "d"}));
  CHECK(ints_in(any.columns[0].rows) == Ints({0, 2, 3}));
  CHECK(ints_in(any.columns[0].dims) == Ints({2, 1}));
}

TEST(a_tensor_of_another_dtype_or_shape_is_refused) {
  const auto floats_of_2x2 = std::vector<Feature>{tensor("t", kFloat32, {2, 2})};
  check_fault(fault_of(floats_of_2x2, tensor_row(tensor_proto(kInt64, {1}, Bytes(8)))), FaultKind::kSchema,
              "holds a tensor of int64, but float32 is expected", "t");
  check_fault(fault_of(floats_of_2x2, tensor_row(tensor_proto(kFloat32, {4}, Bytes(16)))), FaultKind::kSchema,
              "holds a tensor of shape [4], but [2, 2] is expected", "t");
  check_fault(
      fault_of({tensor("t", kFloat32, {-1, 3})}, tensor_row(tensor_proto(kFloat32, {2, 2}, Bytes(16)))),
      FaultKind::kSchema, "holds a tensor of shape [2, 2], but [None, 3] is expected", "t");
}

TEST(hostile_tensors_are_refused) {
  const Bytes protos[] = {
      {0x08},
      text("not a proto at all"),
      tensor_proto(kFloat32, {2, 2}, Bytes(15)),
      tensor_proto(kFloat32, {-1, 2}, {}),
      tensor_proto(kFloat32, {int64_t{1} << 62, int64_t{1} << 62}, {}),
      tensor_proto(kFloat32, {int64_t{1} << 40}, {}) + field(5, memory({1.f})),
      Bytes{0x08, 0x01} + field(2, field(2, {0x08})),
      Bytes{0x08, 0x01, 0x12, 0x7f},
      Bytes{0x08, 0x01} + shape({2, 2}) + field(5, Bytes(6)),
  };
  for (const Bytes& proto : protos) {
    for (std::vector<int64_t> dims : {std::vector<int64_t>{2, 2}, {-1, -1}, {-1}}) {
      const Fault fault = fault_of({tensor("t", kFloat32, dims)}, tensor_row(proto));
      CHECK_EQ(fault.kind, FaultKind::kCorrupt);
      CHECK_EQ(fault.feature, "t");
    }
  }
  check_fault(fault_of({tensor("t", kFloat32, {1})}, example(entry("t", floats({1})))), FaultKind::kSchema,
              "holds float32 values, but bytes are expected", "t");
}

// --- missing values ---

TEST(what_is_missing_or_has_no_kind_gets_the_default) {
  Feature number = feature("i", Layout::kFixed, kInts, 2);
  number.has_default = true;
  number.default_numbers = memory({int64_t{8}, int64_t{9}});
  Feature string = feature("s", Layout::kFixed, kStrings, 2);
  string.has_default = true;
  string.default_strings = {"d", ""};
  const Decoded decoded = decode(
      {number, string}, {example({}), example(entry("i", ints({1, 2})) + entry("s", strings({"a", "b"}))),
                         example(entry("i", {}) + entry("s", kUnknown)), Bytes{}});
  CHECK_EQ(decoded.rows, 4);
  CHECK(ints_in(decoded.columns[0].data) == Ints({8, 9, 1, 2, 8, 9, 8, 9}));
  CHECK(strings_in(decoded.columns[1]) == Strings({"d", "", "a", "b", "d", "", "d", ""}));
  // A kind without values is not missing.
  check_fault(fault_of({number}, example(entry("i", ints({})))), FaultKind::kSchema,
              "holds 0 values, but 2 are expected", "i");
}

TEST(what_is_missing_without_a_default_is_refused) {
  for (const Bytes& record :
       {Bytes{}, example({}), example(entry("b", ints({1}))), example(entry("a", {}))}) {
    check_fault(fault_of({feature("a", Layout::kFixed, kInts)}, record), FaultKind::kSchema,
                "is missing, and has no default value", "a");
    check_fault(fault_of({needed(feature("a", Layout::kVarLen, kInts))}, record), FaultKind::kSchema,
                "is missing", "a");
    check_fault(fault_of({needed(feature("a", Layout::kSteps, kStrings))}, record), FaultKind::kSchema,
                "is missing", "a");
    check_fault(fault_of({tensor("a", kFloat32, {1})}, record), FaultKind::kSchema,
                "is missing, and has no default value", "a");
  }
}

TEST(a_wrong_kind_or_number_of_values_is_refused) {
  check_fault(fault_of({feature("a", Layout::kFixed, kInts)}, example(entry("a", floats({1})))),
              FaultKind::kSchema, "holds float32 values, but int64 is expected", "a");
  check_fault(fault_of({feature("a", Layout::kVarLen, kStrings)}, example(entry("a", ints({1})))),
              FaultKind::kSchema, "holds int64 values, but bytes are expected", "a");
  check_fault(fault_of({feature("a", Layout::kFixed, kInts, 3)}, example(entry("a", ints({1, 2})))),
              FaultKind::kSchema, "holds 2 values, but 3 are expected", "a");
  check_fault(fault_of({feature("a", Layout::kFixed, kFloats)}, example(entry("a", floats({1, 2})))),
              FaultKind::kSchema, "holds 2 values, but 1 is expected", "a");
  check_fault(fault_of({feature("a", Layout::kFixed, kStrings, 2)}, example(entry("a", strings({"x"})))),
              FaultKind::kSchema, "holds 1 value, but 2 are expected", "a");
}

// --- the ways to write the same ---

TEST(packed_single_mixed_and_merged_lists_are_the_same) {
  const Bytes ways[] = {
      ints({1, 2, 3}),
      int64_list(single_ints({1, 2, 3})),
      int64_list(packed_ints({1}) + single_ints({2}) + packed_ints({3})),
      ints({1}) + ints({2, 3}),
      ints({1, 2}) + kUnknown + int64_list(single_ints({3})),
      floats({9}) + ints({1, 2, 3}),
      strings({"x"}) + ints({4}) + floats({9}) + ints({1, 2, 3}),
      kUnknown + ints({1, 2, 3}),
      int64_list(kUnknown + packed_ints({1, 2, 3}) + kUnknown),
  };
  for (Layout layout : {Layout::kFixed, Layout::kVarLen, Layout::kSteps}) {
    for (const Bytes& way : ways) {
      const size_t count = layout == Layout::kVarLen ? 1 : 3;
      const Decoded decoded = decode({feature("a", layout, kInts, count)}, {example(entry("a", way))});
      CHECK_EQ(decoded.rows, 1);
      CHECK(ints_in(decoded.columns[0].data) == Ints({1, 2, 3}));
    }
  }
}

TEST(unknown_fields_are_passed_over_everywhere) {
  const Bytes key = field(1, text("a")), value = field(2, ints({5}));
  const Bytes entries[] = {
      kUnknown + key + value, key + kUnknown + value, key + value + kUnknown, value + key,
      value + kUnknown + key,
  };
  for (const Bytes& inner : entries) {
    const Bytes plain = example(field(1, inner));
    const Bytes dressed = kUnknown + field(1, kUnknown + field(1, inner) + kUnknown) + kUnknown;
    CHECK(fixed_ints({plain, dressed, plain, dressed, example(entry("a", ints({5})))}) ==
          Ints({5, 5, 5, 5, 5}));
  }
}

TEST(the_last_of_equal_keys_wins) {
  const Bytes twice = example(entry("a", ints({1})) + entry("b", ints({9})) + entry("a", ints({2})));
  CHECK(fixed_ints({twice, twice, example(entry("a", ints({3})))}) == Ints({2, 2, 3}));
  // Also when the last one is empty.
  check_fault(
      fault_of({feature("a", Layout::kFixed, kInts)}, example(entry("a", ints({1})) + entry("a", {}))),
      FaultKind::kSchema, "is missing, and has no default value", "a");
}

TEST(an_entry_that_only_begins_as_expected_is_read_to_its_end) {
  const Bytes begin = field(1, text("a")) + field(2, ints({1}));
  const auto record = [](const Bytes& inner) { return example(field(1, inner)); };
  const Decoded decoded = decode(
      {feature("a", Layout::kVarLen, kInts)},
      {record(begin), record(begin + field(1, text("b"))), record(begin), record(begin + Bytes{0x0e})});
  CHECK_EQ(decoded.rows, 3);
  CHECK(ints_in(decoded.columns[0].rows) == Ints({0, 1, 1, 2}));  // of two keys in one entry, the last counts
  CHECK_EQ(decoded.faults.size(), 1);
}

TEST(a_repeated_features_message_is_merged) {
  const Bytes record = example(entry("a", ints({1})) + entry("b", ints({2}))) + kUnknown +
                       example(entry("c", ints({3})) + entry("a", ints({4})));
  const Decoded decoded = decode({feature("a", Layout::kFixed, kInts), feature("b", Layout::kFixed, kInts),
                                  feature("c", Layout::kFixed, kInts)},
                                 {record, record});
  CHECK_EQ(decoded.rows, 2);
  CHECK(ints_in(decoded.columns[0].data) == Ints({4, 4}));
  CHECK(ints_in(decoded.columns[1].data) == Ints({2, 2}));
  CHECK(ints_in(decoded.columns[2].data) == Ints({3, 3}));
}

TEST(the_order_of_keys_may_change_from_record_to_record) {
  // Names of all lengths around the eight bytes that are compared at once, some the beginning of another.
  std::vector<std::string> keys;
  for (size_t size = 0; size < 12; ++size) keys.push_back(std::string("abcdefghijklmnop").substr(0, size));
  keys.insert(keys.end(),
              {"abcdX", "abcdeX", "abcdefghX", std::string(200, 'k'), std::string(200, 'k') + "x"});
  std::vector<Feature> wanted;
  for (size_t i = 0; i < keys.size(); i += 2) wanted.push_back(feature(keys[i], Layout::kFixed, kInts));

  std::vector<Bytes> records;
  for (size_t turn = 0; turn < 2 * keys.size(); ++turn) {
    Bytes entries;
    for (size_t i = 0; i < keys.size(); ++i) {
      const size_t pick = turn % 3 == 0 ? i : (i * 5 + turn) % keys.size();
      entries += entry(keys[pick], ints({static_cast<int64_t>(100 * turn + pick)}));
    }
    records.push_back(example(entries));
    if (turn % 4 == 1) records.push_back(records.back());
  }
  const Decoded decoded = decode(wanted, records);
  if (!CHECK_EQ(decoded.rows, records.size())) return;
  for (size_t i = 0; i < wanted.size(); ++i) {
    size_t row = 0;
    for (size_t turn = 0; turn < 2 * keys.size(); ++turn) {
      for (int copies = turn % 4 == 1 ? 2 : 1; copies > 0; --copies) {
        if (!CHECK_EQ(decoded.columns[i].data.as<int64_t>()[row++], 100 * turn + 2 * i)) return;
      }
    }
  }
}

TEST(a_missing_key_is_not_taken_from_the_record_before) {
  const Decoded decoded = decode({feature("a", Layout::kVarLen, kInts)},
                                 {example(entry("a", ints({1}))), example(entry("b", ints({2}))), example({}),
                                  example(entry("a", ints({3})))});
  CHECK(ints_in(decoded.columns[0].rows) == Ints({0, 1, 1, 1, 2}));
}

TEST(two_features_may_read_one_key) {
  Feature again = feature("a", Layout::kVarLen, kInts);
  again.name = "again";
  Feature wrong = feature("a", Layout::kFixed, kInts, 2);
  wrong.name = "wrong";
  const Bytes record = example(entry("a", ints({7})));
  const Decoded decoded = decode({feature("a", Layout::kFixed, kInts), again}, {record, record});
  CHECK(ints_in(decoded.columns[0].data) == Ints({7, 7}));
  CHECK(ints_in(decoded.columns[1].data) == Ints({7, 7}));
  CHECK(ints_in(decoded.columns[1].rows) == Ints({0, 1, 2}));
  check_fault(fault_of({again, wrong}, record), FaultKind::kSchema, "holds 1 value, but 2 are expected",
              "wrong");
}

TEST(more_keys_than_are_remembered_are_read) {
  Bytes entries;
  for (int i = 0; i < 5000; ++i) entries += entry("key" + std::to_string(i), ints({i}));
  const Bytes record = example(entries);
  const Decoded decoded = decode(
      {feature("key4999", Layout::kFixed, kInts), feature("key0", Layout::kFixed, kInts)}, {record, record});
  CHECK(ints_in(decoded.columns[0].data) == Ints({4999, 4999}));
  CHECK(ints_in(decoded.columns[1].data) == Ints({0, 0}));
}

TEST(a_decoder_is_used_again_for_the_next_block) {
  ExampleDecoder decoder(
      schema_of({feature("i", Layout::kVarLen, kInts), feature("s", Layout::kFixed, kStrings)}));
  for (int64_t block = 0; block < 4; ++block) {
    std::vector<Bytes> records;
    for (int64_t row = 0; row < 3 * block; ++row) {
      records.push_back(example(entry("i", ints({block, row})) + entry("s", strings({std::to_string(row)}))));
    }
    const Decoded decoded = decode(decoder, records);
    CHECK_EQ(decoded.rows, 3 * block);
    CHECK_EQ(ints_in(decoded.columns[0].rows).size(), 3 * block + 1);
    CHECK_EQ(ints_in(decoded.columns[0].data).size(), 6 * block);
    CHECK_EQ(strings_in(decoded.columns[1]).size(), 3 * block);
  }
}

// --- damage ---

TEST(a_key_that_is_not_utf8_is_refused_wanted_or_not) {
  for (const char* key : {"\xff", "a\xc0\x80", "\xed\xa0\x80"}) {
    for (const char* wanted : {"a", key}) {
      check_fault(fault_of({feature(wanted, Layout::kVarLen, kInts)}, example(entry(key, ints({1})))),
                  FaultKind::kCorrupt, "a feature's key is not valid UTF-8", "");
    }
  }
  CHECK_EQ(decode({feature("\u00e9", Layout::kFixed, kInts)}, {example(entry("\u00e9", ints({1})))}).rows, 1);
}

TEST(malformed_messages_are_refused) {
  const Bytes eleven = Bytes(10, 0x80) + Bytes{0x00};
  const Bytes good = entry("a", ints({1}));
  const Bytes records[] = {
      {0x0a},
      {0x0a, 0x01},
      {0x0a, 0x05, 0x0a},
      Bytes{0x0a} + eleven,
      Bytes{0x0a} + varint(UINT64_MAX),
      eleven,
      {0x00},
      {0x0c},
      {0x0b},
      example(good) + Bytes{0x07},
      example(good + Bytes{0x0a}),
      example(good + Bytes{0x0a, 0x7f, 0x0a, 0x01, 'a'}),
      example(field(1, Bytes{0x0a, 0x7f, 'a'})),
      example(field(1, field(1, text("a")) + Bytes{0x12, 0x7f})),
      example(field(1, field(1, text("a")) + field(2, ints({1})) + Bytes{0x0e})),
      example(field(1, field(1, text("a")) + Bytes{0x12} + eleven)),
      example(good + Bytes{0x13}),
  };
  for (const Bytes& record : records) {
    check_fault(fault_of({feature("a", Layout::kVarLen, kInts)}, record), FaultKind::kCorrupt,
                "the protobuf message is malformed", "");
  }
}

TEST(malformed_values_are_refused_in_every_layout) {
  const Bytes eleven = Bytes(10, 0x80) + Bytes{0x00};
  const Bytes features[] = {
      {0x1a},
      {0x1a, 0x05, 0x0a, 0x01},
      int64_list({0x0a, 0x05, 0x01}),
      int64_list(field(1, eleven)),
      int64_list(field(1, {0x80})),
      int64_list(Bytes{0x08} + eleven),
      ints({1}) + Bytes{0x00},
      {0x00, 0x00},
      {0x00, 0x03, 0x0a, 0x01, 0x05},
      {0x00, 0x02, 0x0a, 0x00},
      {0x0c},
      int64_list({0x0c}),
  };
  for (Layout layout : {Layout::kFixed, Layout::kVarLen, Layout::kSteps}) {
    for (const Bytes& value : features) {
      check_fault(fault_of({feature("a", layout, kInts)}, example(entry("a", value))), FaultKind::kCorrupt,
                  "the protobuf message is malformed", "a");
    }
  }
  for (const Bytes& value : {Bytes{0x0a, 0x02, 0x0a, 0x05}, Bytes{0x0a, 0x7f}, bytes_list({0x0c}),
                             Bytes{0x00, 0x02, 0x0a, 0x00}}) {
    for (const Feature& of_strings :
         {feature("a", Layout::kFixed, kStrings), feature("a", Layout::kVarLen, kStrings), raw("a", 1, 4),
          tensor("a", kFloat32, {1}), tensor("a", kString, {-1})}) {
      check_fault(fault_of({of_strings}, example(entry("a", value))), FaultKind::kCorrupt,
                  "the protobuf message is malformed", "a");
    }
  }
}

TEST(an_unwanted_value_is_not_looked_into) {
  CHECK(fixed_ints({example(entry("b", {0xff, 0xff}) + entry("a", ints({1})))}) == Ints({1}));
}

// --- feature lists ---

TEST(feature_lists_of_equal_steps) {
  const auto record = [](const Bytes& lists) { return sequence_example({}, lists); };
  const Decoded decoded =
      decode_lists({feature("i", Layout::kSteps, kInts, 2), feature("f", Layout::kSteps, kFloats),
                    feature("s", Layout::kSteps, kStrings)},
                   {record(entry("i", feature_list({ints({1, 2}), ints({3, 4})})) +
                           entry("f", feature_list({floats({1})})) +
                           entry("s", feature_list({strings({"a"}), strings({"bc"})}))),
                    record({}),
                    record(entry("i", feature_list({int64_list(single_ints({5, 6}))})) + entry("f", {}) +
                           entry("s", feature_list({strings({""})})))});
  CHECK_EQ(decoded.rows, 3);
  CHECK(ints_in(decoded.columns[0].data) == Ints({1, 2, 3, 4, 5, 6}));
  CHECK(ints_in(decoded.columns[0].rows) == Ints({0, 2, 2, 3}));
  CHECK(floats_in(decoded.columns[1].data) == Floats({1}));
  CHECK(ints_in(decoded.columns[1].rows) == Ints({0, 1, 1, 1}));
  CHECK(strings_in(decoded.columns[2]) == Strings({"a", "bc", ""}));
  CHECK(ints_in(decoded.columns[2].rows) == Ints({0, 2, 2, 3}));
}

TEST(feature_lists_of_any_number_of_values_have_two_offsets) {
  const Decoded decoded =
      decode_lists({feature("i", Layout::kVarLen, kInts), feature("s", Layout::kVarLen, kStrings)},
                   {sequence_example({}, entry("i", feature_list({ints({1, 2}), {}, ints({3})})) +
                                             entry("s", feature_list({strings({"a", "b"})}))),
                    sequence_example({}, {}),
                    sequence_example({}, entry("i", feature_list({ints({}), ints({4})})) +
                                             entry("s", feature_list({strings({}), strings({"c"})})))});
  CHECK_EQ(decoded.rows, 3);
  CHECK(ints_in(decoded.columns[0].data) == Ints({1, 2, 3, 4}));
  CHECK(ints_in(decoded.columns[0].steps) == Ints({0, 2, 2, 3, 3, 4}));
  CHECK(ints_in(decoded.columns[0].rows) == Ints({0, 3, 3, 5}));
  CHECK(strings_in(decoded.columns[1]) == Strings({"a", "b", "c"}));
  CHECK(ints_in(decoded.columns[1].steps) == Ints({0, 2, 2, 3}));
  CHECK(ints_in(decoded.columns[1].rows) == Ints({0, 1, 1, 3}));
}

TEST(context_and_lists_may_have_equal_keys_and_come_in_any_order) {
  ExampleDecoder decoder(
      schema_of({feature("a", Layout::kFixed, kInts)}, {feature("a", Layout::kVarLen, kInts)}));
  const Bytes context = field(1, entry("a", ints({1})));
  const Bytes lists = field(2, entry("a", feature_list({ints({2, 3})})));
  const Bytes more = field(2, entry("a", feature_list({ints({4})})));
  const Decoded decoded = decode(decoder, {context + lists, lists + context,
                                           kUnknown + lists + kUnknown + context, context + lists + more});
  CHECK_EQ(decoded.rows, 4);
  CHECK(ints_in(decoded.columns[0].data) == Ints({1, 1, 1, 1}));
  CHECK(ints_in(decoded.columns[1].data) == Ints({2, 3, 2, 3, 2, 3, 4}));
}

TEST(an_example_decoder_passes_over_feature_lists) {
  CHECK(fixed_ints({sequence_example(entry("a", ints({1})), {0xff})}) == Ints({1}));
}

TEST(damaged_feature_lists_are_refused) {
  const auto fault = [](const Feature& list, const Bytes& lists) {
    Decoded decoded = decode_lists({list}, {sequence_example({}, lists)});
    CHECK_EQ(decoded.rows, 0);
    return CHECK_EQ(decoded.faults.size(), 1) ? decoded.faults[0] : Fault{};
  };
  const Feature steps = feature("a", Layout::kSteps, kInts, 2), any = feature("a", Layout::kVarLen, kInts);
  check_fault(fault(steps, entry("a", feature_list({ints({1, 2}), ints({3})}))), FaultKind::kSchema,
              "holds 1 value, but 2 are expected in each step", "a");
  check_fault(fault(steps, entry("a", feature_list({ints({1, 2}), {}}))), FaultKind::kSchema,
              "holds 0 values, but 2 are expected in each step", "a");
  check_fault(fault(needed(steps), {}), FaultKind::kSchema, "is missing", "a");
  for (const Feature& list : {steps, any}) {
    check_fault(fault(list, entry("a", feature_list({ints({1, 2}), floats({1, 2})}))), FaultKind::kSchema,
                "holds float32 values, but int64 is expected", "a");
    for (const Bytes& damaged :
         {Bytes{0x0a}, Bytes{0x0a, 0x05, 0x1a}, Bytes{0x0c}, Bytes{0x00}, field(1, {0x1a, 0x09}),
          field(1, int64_list(field(1, {0x01, 0x80}))), field(1, {0x00, 0x03, 0x0a, 0x01, 0x05})}) {
      check_fault(fault(list, entry("a", feature_list({ints({1, 2})}) + damaged)), FaultKind::kCorrupt,
                  "the protobuf message is malformed", "a");
    }
  }
  check_fault(fault(any, {0x0a, 0x05}), FaultKind::kCorrupt, "the protobuf message is malformed", "");
  check_fault(fault(any, entry("\xff", {})), FaultKind::kCorrupt, "a feature's key is not valid UTF-8", "");
}

// --- a bad record leaves no trace ---

TEST(a_refused_record_leaves_no_trace_in_any_column) {
  // The last list is what goes wrong, so every other column has taken its part of the row already.
  const auto schema =
      schema_of({feature("fi", Layout::kFixed, kInts, 2), feature("ff", Layout::kFixed, kFloats),
                 feature("fs", Layout::kFixed, kStrings, 2), feature("vi", Layout::kVarLen, kInts),
                 feature("vs", Layout::kVarLen, kStrings), feature("si", Layout::kSteps, kInts, 2),
                 feature("ss", Layout::kSteps, kStrings, 2), raw("r", 2, 2), tensor("t", kFloat32, {2}),
                 tensor("tv", kInt64, {-1}), tensor("ts", kString, {-1, 2})},
                {feature("li", Layout::kSteps, kInts, 2), feature("ls", Layout::kSteps, kStrings),
                 feature("lv", Layout::kVarLen, kInts), feature("lw", Layout::kVarLen, kStrings)});
  const auto record = [](int64_t n, const Bytes& last) {
    const std::string s = std::to_string(n);
    const float f = static_cast<float>(n);
    const Bytes context = entry("fi", ints({n, n + 1})) + entry("ff", floats({f})) +
                          entry("fs", strings({s, s + "."})) + entry("vi", ints({n, n, n})) +
                          entry("vs", strings({s})) + entry("si", ints({n, n, n, n})) +
                          entry("ss", strings({s, s})) + entry("r", strings({"abcd"})) +
                          entry("t", string_of(tensor_proto(kFloat32, {2}, memory({f, f})))) +
                          entry("tv", string_of(tensor_proto(kInt64, {1}, memory({n})))) +
                          entry("ts", string_of(Bytes{0x08, 0x07} + shape({1, 2}) + field(8, text(s))));
    const Bytes lists = entry("li", feature_list({ints({n, n})})) +
                        entry("ls", feature_list({strings({s})})) +
                        entry("lv", feature_list({ints({n}), ints({n, n})})) + entry("lw", last);
    return sequence_example(context, lists);
  };
  const Bytes last = feature_list({strings({"w", "x"}), strings({})});
  const std::vector<Bytes> good = {record(1, last), record(2, last), record(3, last)};
  const std::vector<Bytes> bad = {
      record(9, feature_list({strings({"y"}), ints({1})})),
      record(9, feature_list({strings({"y"})}) + Bytes{0x0a, 0x7f}),
      record(9, field(1, bytes_list(field(1, text("z")) + Bytes{0x0c}))),
      Bytes{0x0a, 0x7f},
  };
  ExampleDecoder decoder(schema);
  const Decoded clean = decode(decoder, good);
  CHECK_EQ(clean.rows, 3);
  for (size_t at = 0; at <= good.size(); ++at) {
    std::vector<Bytes> records = good;
    records.insert(records.begin() + static_cast<ptrdiff_t>(at), bad.begin(), bad.end());
    const Decoded decoded = decode(decoder, records);
    CHECK_EQ(decoded.rows, 3);
    CHECK_EQ(decoded.faults.size(), bad.size());
    for (size_t i = 0; i < clean.columns.size(); ++i) {
      const Column &a = clean.columns[i], &b = decoded.columns[i];
      for (auto part : {&Column::data, &Column::strings, &Column::steps, &Column::rows, &Column::dims}) {
        const auto x = (a.*part).bytes(), y = (b.*part).bytes();
        CHECK(std::equal(x.begin(), x.end(), y.begin(), y.end()));
      }
    }
  }
}

TEST(a_fault_in_each_layout_takes_back_what_it_added_itself) {
  struct Case {
    Feature feature;
    Bytes good, bad;
  };
  const Case cases[] = {
      {feature("a", Layout::kFixed, kInts, 2), ints({1, 2}),
       int64_list(field(1, Bytes{1, 2} + Bytes(10, 0x80)))},
      {feature("a", Layout::kFixed, kInts, 2), ints({1, 2}),
       int64_list(packed_ints({1}) + field(1, {0x80, 0x80, 0x80}) + Bytes{0x08, 0x01})},
      {feature("a", Layout::kFixed, kStrings, 2), strings({"x", "y"}), strings({"p", "q", "r"})},
      {feature("a", Layout::kVarLen, kInts), ints({1}),
       int64_list(field(1, Bytes{1} + Bytes(10, 0x80) + Bytes{0x01}))},
      {feature("a", Layout::kVarLen, kStrings), strings({"x"}),
       bytes_list(field(1, text("p")) + Bytes{0x0a})},
      {feature("a", Layout::kSteps, kInts, 2), ints({1, 2}), ints({1, 2, 3})},
      {feature("a", Layout::kSteps, kStrings, 2), strings({"x", "y"}), strings({"p"})},
      {raw("a", 4, 1), strings({"abcd"}), strings({"abc"})},
      {tensor("a", kString, {2}), string_of(Bytes{0x08, 0x07} + shape({2}) + field(8, text("s"))),
       string_of(text("??"))},
      {tensor("a", kInt64, {-1}), string_of(tensor_proto(kInt64, {1}, Bytes(8))),
       string_of(tensor_proto(kInt64, {1, 1}, Bytes(8)))},
  };
  for (const Case& c : cases) {
    const Bytes good = example(entry("a", c.good)), bad = example(entry("a", c.bad));
    const Decoded clean = decode({c.feature}, {good, good});
    const Decoded mixed = decode({c.feature}, {bad, good, bad, bad, good, bad});
    CHECK_EQ(clean.rows, 2);
    CHECK_EQ(mixed.rows, 2);
    CHECK_EQ(mixed.faults.size(), 4);
    for (auto part : {&Column::data, &Column::strings, &Column::rows, &Column::dims}) {
      const auto x = (clean.columns[0].*part).bytes(), y = (mixed.columns[0].*part).bytes();
      CHECK(std::equal(x.begin(), x.end(), y.begin(), y.end()));
    }
  }
}

TEST(a_string_that_stands_for_many_more_is_refused_when_that_would_fill_the_memory) {
  Feature feature;
  feature.name = feature.key = "t";
  feature.layout = Layout::kTensor;
  feature.kind = ValueKind::kBytes;
  feature.tensor_dtype = kString;
  feature.dims = {-1};
  auto schema = std::make_shared<Schema>();
  schema->features = {feature};
  ExampleDecoder decoder(schema);
  decoder.begin(1);
  const Bytes proto =
      Bytes{0x08, 0x07} + field(2, field(2, Bytes{0x08} + varint(4096))) + field(8, Bytes(20'000));
  CHECK(!decoder.add(example(entry("t", string_of(proto)))));
  CHECK_EQ(decoder.fault().kind, FaultKind::kCorrupt);
}

TEST(fault_keeps_how_the_record_begins) {
  auto schema = std::make_shared<Schema>();
  schema->features = {Feature{}};
  schema->features[0].required = true;
  ExampleDecoder decoder(schema);
  decoder.begin(1);
  const Bytes text(5'000, '{');
  CHECK(!decoder.add(text));
  CHECK_EQ(decoder.fault().kind, FaultKind::kCorrupt);
  CHECK_EQ(decoder.fault().payload, std::string(1024, '{'));
}

}  // namespace
}  // namespace feedline
