#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/example_decoder.h"
#include "core/row_table.h"
#include "tests/check.h"
#include "tests/samples.h"

namespace feedline {
namespace {

using namespace samples;

Feature feature(std::string key, Layout layout, ValueKind kind, size_t count, size_t item_size) {
  Feature made;
  made.name = key;
  made.key = std::move(key);
  made.layout = layout;
  made.kind = kind;
  made.count = count;
  made.item_size = item_size;
  return made;
}

Feature floats_of(std::string key, size_t count) {
  return feature(std::move(key), Layout::kFixed, ValueKind::kFloat, count, sizeof(float));
}
Feature ints_of(std::string key, size_t count) {
  return feature(std::move(key), Layout::kFixed, ValueKind::kInt64, count, sizeof(int64_t));
}
Feature string_in(std::string key) {
  return feature(std::move(key), Layout::kFixed, ValueKind::kBytes, 1, 0);
}
Feature raw(std::string key, size_t bytes) {
  return feature(std::move(key), Layout::kRaw, ValueKind::kBytes, bytes, 1);
}

std::shared_ptr<const Schema> schema_of(std::vector<Feature> features) {
  return std::make_shared<const Schema>(Schema{std::move(features), {}});
}

RowLayout layout_of(const Schema& schema) {
  const std::optional<RowLayout> layout = RowLayout::of(schema);
  CHECK(layout.has_value());
  return layout.value_or(RowLayout{});
}

// Near and far, numbers and strings, and each kind of default.
std::shared_ptr<const Schema> wide_schema() {
  Feature filled = floats_of("filled", 50);
  filled.has_default = true;
  filled.default_numbers.assign(50 * sizeof(float), 1);
  Feature named = string_in("named");
  named.has_default = true;
  named.default_strings = {"nobody"};
  return schema_of({ints_of("near", 1), floats_of("pair", 2), ints_of("ints", 40), floats_of("far", 60),
                    raw("raw", 300), raw("few", 3), string_in("text"), filled, named, floats_of("none", 0)});
}

Bytes record_of(uint8_t number, bool packed, bool full) {
  Bytes ints, unpacked_ints, far, unpacked_far;
  for (int64_t i = 0; i < 40; ++i) {
    ints += varint(static_cast<uint64_t>(number * i));
    unpacked_ints += Bytes{0x08} + varint(static_cast<uint64_t>(number * i));
  }
  for (int i = 0; i < 60; ++i) {
    far += memory({static_cast<float>(number + i)});
    unpacked_far += Bytes{0x0d} + memory({static_cast<float>(number + i)});
  }
  Bytes entries = entry("near", packed ? samples::ints({number}) : int64_list(single_ints({number}))) +
                  entry("pair", packed ? floats({1.5f, -2}) : float_list(single_floats({1.5f, -2}))) +
                  entry("ints", int64_list(packed ? field(1, ints) : unpacked_ints)) +
                  entry("far", float_list(packed ? field(1, far) : unpacked_far)) +
                  entry("raw", string_of(payload(300, number))) +
                  entry("few", string_of(payload(3, number))) + entry("text", string_of(payload(number, 7))) +
                  entry("none", floats({}));
  if (full)
    entries +=
        entry("named", string_of(text("somebody"))) + entry("filled", float_list(field(1, Bytes(200, 9))));
  return example(entries);
}

std::vector<Bytes> some_records(uint8_t first, size_t count) {
  std::vector<Bytes> records;
  for (size_t i = 0; i < count; ++i) {
    records.push_back(record_of(static_cast<uint8_t>(first + i), /*packed=*/i % 3 != 0, /*full=*/i % 2 == 0));
  }
  return records;
}

RowTable table_of(const std::shared_ptr<const Schema>& schema, const std::vector<Bytes>& records) {
  RowDecoder decoder(schema, layout_of(*schema));
  decoder.begin(records.size() / 2);  // it may be wrong
  for (const Bytes& record : records) CHECK(decoder.add(record));
  CHECK_EQ(decoder.rows(), records.size());
  return decoder.finish();
}

std::vector<Column> columns_of(const std::shared_ptr<const Schema>& schema,
                               const std::vector<Bytes>& records) {
  ExampleDecoder decoder(schema);
  decoder.begin(records.size());
  for (const Bytes& record : records) CHECK(decoder.add(record));
  return decoder.finish();
}

std::vector<Column> picked_columns(const RowLayout& layout, const std::vector<const RowTable*>& tables,
                                   const std::vector<int64_t>& picks) {
  std::vector<Column> columns;
  CHECK(!pick_columns(layout, tables, picks, columns));
  return columns;
}

void check_same(const std::vector<Column>& found, const std::vector<Column>& wanted) {
  if (!CHECK_EQ(found.size(), wanted.size())) return;
  for (size_t i = 0; i < found.size(); ++i) {
    for (auto part : {&Column::data, &Column::strings, &Column::steps, &Column::rows, &Column::dims}) {
      const auto a = (found[i].*part).bytes(), b = (wanted[i].*part).bytes();
      CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
    }
  }
}

}  // namespace

TEST(picked_rows_have_the_columns_of_their_records) {
  const auto schema = wide_schema();
  const auto one = some_records(0, 100), two = some_records(100, 150);
  const RowTable first = table_of(schema, one), second = table_of(schema, two);
  const std::vector<const RowTable*> tables = {&first, &second};
  std::vector<int64_t> picks;
  std::vector<Bytes> picked;
  for (size_t i = 0; i < 700; ++i) {  // more than one thread takes, and many twice
    const uint32_t source = i % 3 == 0 ? 0 : 1;
    const size_t row = i * 37 % (source == 0 ? one.size() : two.size());
    picks.push_back(packed({source, static_cast<uint32_t>(row)}));
    picked.push_back((source == 0 ? one : two)[row]);
  }
  const RowLayout layout = layout_of(*schema);
  const auto wanted = columns_of(schema, picked);
  check_same(picked_columns(layout, tables, picks), wanted);

  // And a copy needs neither the tables nor the records.
  RowTable copy;
  {
    auto records = some_records(0, 100);
    const RowTable brief = table_of(schema, records);
    const std::vector<const RowTable*> only = {&brief, &second};
    CHECK(!copy_rows(layout, only, picks, copy));
    for (Bytes& record : records) std::fill(record.begin(), record.end(), uint8_t{0xee});
  }
  std::vector<int64_t> all(picks.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<const RowTable*> copies = {&copy};
  check_same(picked_columns(layout, copies, all), wanted);
  check_same(picked_columns(layout, tables, {}), columns_of(schema, {}));

  const std::vector<int64_t> outside = {packed({2, 0})};
  std::vector<Column> none;
  CHECK_EQ(pick_columns(layout, tables, outside, none).kind, Flaw::Kind::kSource);
  CHECK_EQ(copy_rows(layout, tables, outside, copy).kind, Flaw::Kind::kSource);
}

TEST(a_record_that_does_not_fit_gives_the_same_fault_and_no_row) {
  const auto schema = schema_of({ints_of("a", 1), floats_of("b", 50), raw("c", 300), string_in("d")});
  const Bytes good = entry("a", ints({1})) + entry("b", float_list(field(1, Bytes(200, 1)))) +
                     entry("c", string_of(payload(300, 1))) + entry("d", strings({"x"}));
  const std::vector<Bytes> bad = {
      example(good + entry("a", ints({1, 2}))),
      example(good + entry("a", floats({1}))),
      example(good + entry("b", floats({1, 2}))),
      example(good + entry("b", float_list(field(1, Bytes(199, 1))))),
      example(good + entry("c", strings({"short"}))),
      example(good + entry("c", strings({"a", "b"}))),
      example(good + entry("d", strings({}))),
      example(good + entry("d", ints({1}))),
      example(entry("a", ints({1}))),
      text("no message at all"),
  };
  RowDecoder rows(schema, layout_of(*schema));
  ExampleDecoder columns(schema);
  rows.begin(1);
  columns.begin(1);
  for (const Bytes& record : bad) {
    CHECK(!rows.add(record));
    CHECK(!columns.add(record));
    CHECK_EQ(rows.fault().kind, columns.fault().kind);
    CHECK_EQ(rows.fault().what, columns.fault().what);
    CHECK_EQ(rows.fault().feature, columns.fault().feature);
  }
  const Bytes record = example(good);
  CHECK(rows.add(record));
  const RowTable table = rows.finish();
  CHECK_EQ(table.rows, 1);
  const std::vector<const RowTable*> tables = {&table};
  const std::vector<int64_t> picks = {0};
  check_same(picked_columns(layout_of(*schema), tables, picks), columns_of(schema, {record}));
}

TEST(features_of_changing_size_have_no_layout) {
  const auto layout = [](Feature feature) { return RowLayout::of(Schema{{std::move(feature)}, {}}); };
  CHECK(!layout(feature("a", Layout::kVarLen, ValueKind::kInt64, 1, 8)));
  CHECK(!layout(feature("a", Layout::kSteps, ValueKind::kFloat, 2, 4)));
  CHECK(!layout(feature("a", Layout::kTensor, ValueKind::kBytes, 2, 4)));
  CHECK(!layout(feature("a", Layout::kFixed, ValueKind::kBytes, 2, 0)));
  CHECK(!RowLayout::of(Schema{{}, {feature("a", Layout::kSteps, ValueKind::kInt64, 1, 8)}}));
  CHECK(!layout(ints_of("a", SIZE_MAX / 16)));
  CHECK(layout(string_in("a")).has_value());
}

TEST(whole_records_are_rows_too) {
  Schema whole{{string_in("")}, {}};
  whole.whole = true;
  const auto schema = std::make_shared<const Schema>(whole);
  const std::vector<Bytes> records = {text("abc"), {}, payload(1000, 3)};
  const RowTable table = table_of(schema, records);
  const std::vector<const RowTable*> tables = {&table};
  const std::vector<int64_t> picks = {2, 0, 1, 2};
  check_same(picked_columns(layout_of(*schema), tables, picks),
             columns_of(schema, {records[2], records[0], records[1], records[2]}));
}

}  // namespace feedline
