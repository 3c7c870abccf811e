#include <cmath>
#include <limits>
#include <string>

#include "core/feature_values.h"
#include "tests/check.h"
#include "tests/samples.h"

namespace feedline {
namespace {

using namespace samples;

// What a Feature holds, and whether each of the calls that read it was content.
struct Parsed {
  bool parsed = false;
  bool sound = false;
  ValueKind kind = ValueKind::kNone;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
};

Parsed parse(const Bytes& feature) {
  FeatureValues values;
  Parsed result;
  result.parsed = values.parse({feature.data(), feature.size()});
  if (!result.parsed) return result;
  result.kind = values.kind();
  size_t count = 0;
  switch (result.kind) {
    case ValueKind::kNone:
      result.sound = true;
      break;
    case ValueKind::kBytes:
      result.sound = values.each_string([&](std::string_view value) { result.strings.emplace_back(value); });
      break;
    case ValueKind::kFloat:
      result.sound = values.count(count);
      result.floats.resize(count);
      result.sound = result.sound && values.copy(result.floats.data());
      break;
    case ValueKind::kInt64:
      result.sound = values.count(count);
      result.ints.resize(count);  // the sanitizer sees to it that copy() writes no more
      result.sound = result.sound && values.copy(result.ints.data());
      break;
  }
  return result;
}

void check_ints(const Bytes& feature, const std::vector<int64_t>& expected) {
  const Parsed parsed = parse(feature);
  CHECK(parsed.parsed && parsed.sound);
  CHECK_EQ(parsed.kind, ValueKind::kInt64);
  CHECK(parsed.ints == expected);
}

void check_floats(const Bytes& feature, const std::vector<float>& expected) {
  const Parsed parsed = parse(feature);
  CHECK(parsed.parsed && parsed.sound);
  CHECK_EQ(parsed.kind, ValueKind::kFloat);
  CHECK(parsed.floats == expected);
}

void check_damaged(const Bytes& feature) {
  const Parsed parsed = parse(feature);
  CHECK(!parsed.parsed || !parsed.sound);
}

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Fields that no reader knows, one of each wire type, with a nested group.
const Bytes kUnknown = Bytes{0x20, 0x05} + Bytes{0x29, 1, 2, 3, 4, 5, 6, 7, 8} + field(6, text("unknown")) +
                       Bytes{0x3b, 0x43, 0x08, 0x07, 0x44, 0x3c} + Bytes{0x4d, 1, 2, 3, 4};

TEST(packed_and_single_numbers_mix) {
  check_ints(ints({1, -1, 300, kLeast, kMost, 0}), {1, -1, 300, kLeast, kMost, 0});
  check_ints(int64_list(single_ints({1, -1, kMost})), {1, -1, kMost});
  check_ints(int64_list(single_ints({5}) + packed_ints({6, 7}) + single_ints({8})), {5, 6, 7, 8});
  check_floats(floats({1.5f, -0.0f, 3e38f}), {1.5f, -0.0f, 3e38f});
  check_floats(float_list(single_floats({1.5f, 2.5f})), {1.5f, 2.5f});
  check_floats(float_list(packed_floats({1.5f}) + single_floats({2.5f}) + packed_floats({3.5f, 4.5f})),
               {1.5f, 2.5f, 3.5f, 4.5f});
}

TEST(a_nan_keeps_its_bits) {
  const uint32_t bits = 0x7fc12345;
  const Parsed parsed = parse(float_list(field(1, memory({bits}))));
  CHECK(parsed.sound && parsed.floats.size() == 1 && std::isnan(parsed.floats[0]));
  CHECK(memory({parsed.floats[0]}) == memory({bits}));
}

TEST(strings_may_hold_anything) {
  const Parsed parsed = parse(strings({"one", "", std::string_view("\0\xff", 2)}));
  CHECK(parsed.sound);
  CHECK(parsed.strings == std::vector<std::string>({"one", "", std::string("\0\xff", 2)}));
}

TEST(a_kind_without_values_is_not_a_feature_without_kind) {
  CHECK_EQ(parse({}).kind, ValueKind::kNone);
  CHECK_EQ(parse(kUnknown).kind, ValueKind::kNone);
  CHECK(parse(kUnknown).sound);
  check_ints(int64_list({}), {});
  check_ints(ints({}), {});
  check_floats(float_list({}), {});
  const Parsed parsed = parse(strings({}));
  CHECK(parsed.sound && parsed.kind == ValueKind::kBytes && parsed.strings.empty());
}

TEST(lists_of_one_kind_are_merged) {
  check_ints(ints({1, 2}) + ints({}) + int64_list(single_ints({3})), {1, 2, 3});
  check_floats(floats({1.0f}) + kUnknown + floats({2.0f}), {1.0f, 2.0f});
  CHECK(parse(strings({"a"}) + strings({"b", "c"})).strings == std::vector<std::string>({"a", "b", "c"}));
}

TEST(the_last_kind_wins_and_forgets_the_others) {
  check_ints(floats({1.0f}) + ints({4}), {4});
  check_ints(ints({1}) + floats({1.0f}) + ints({4}), {4});
  check_floats(ints({1}) + strings({"x"}) + floats({2.0f}) + floats({3.0f}), {2.0f, 3.0f});
  CHECK(parse(ints({1}) + strings({"x"})).strings == std::vector<std::string>({"x"}));
  check_ints(floats({1.0f}) + int64_list({}), {});
}

TEST(a_parser_forgets_the_message_before) {
  FeatureValues values;
  const Bytes merged = ints({1}) + ints({2}), single = ints({3}), none;
  size_t count = 0;
  for (const Bytes* feature : {&merged, &single, &none, &merged}) {
    CHECK(values.parse({feature->data(), feature->size()}));
    if (feature == &none) {
      CHECK_EQ(values.kind(), ValueKind::kNone);
    } else {
      CHECK(values.count(count));
      CHECK_EQ(count, feature == &merged ? 2 : 1);
    }
  }
}

TEST(unknown_fields_are_passed_over_at_every_level) {
  check_ints(kUnknown + int64_list(kUnknown + packed_ints({1}) + kUnknown + single_ints({2})) + kUnknown,
             {1, 2});
  check_floats(
      kUnknown + float_list(kUnknown + packed_floats({1.0f}) + kUnknown + single_floats({2.0f}) + kUnknown),
      {1.0f, 2.0f});
  CHECK(parse(bytes_list(kUnknown + field(1, text("s")) + kUnknown)).strings ==
        std::vector<std::string>({"s"}));
}

TEST(a_known_field_of_another_wire_type_is_unknown) {
  check_ints(int64_list(Bytes{0x0d, 1, 2, 3, 4} + Bytes{0x09, 1, 2, 3, 4, 5, 6, 7, 8} + single_ints({7})),
             {7});
  check_floats(float_list(Bytes{0x08, 0x05} + packed_floats({1.0f})), {1.0f});
  CHECK(parse(bytes_list(Bytes{0x08, 0x05} + field(1, text("s")))).strings ==
        std::vector<std::string>({"s"}));
  CHECK_EQ(parse(Bytes{0x08, 0x05, 0x15, 1, 2, 3, 4}).kind, ValueKind::kNone);
}

TEST(tags_and_sizes_may_be_longer_than_they_need_be) {
  check_ints(Bytes{0x9a, 0x00, 0x85, 0x00, 0x8a, 0x00, 0x81, 0x00, 0x05}, {5});
  check_ints(Bytes{0x1a, 0x83, 0x00, 0x0a, 0x01, 0x05}, {5});
  check_ints(Bytes{0x9a, 0x80, 0x00, 0x03, 0x0a, 0x01, 0x05}, {5});
}

TEST(varints_of_ten_bytes_are_read_and_of_eleven_refused) {
  const Bytes ten = Bytes(9, 0xff) + Bytes{0x01}, eleven = Bytes(10, 0x80) + Bytes{0x00};
  check_ints(int64_list(field(1, ten)), {-1});
  check_ints(int64_list(Bytes{0x08} + ten), {-1});
  check_damaged(int64_list(field(1, eleven)));
  check_damaged(int64_list(Bytes{0x08} + eleven));
  check_damaged(int64_list(field(1, Bytes{1, 2} + eleven + Bytes{3})));
  check_damaged(eleven + ints({1}));
}

TEST(numbers_that_are_cut_off_are_refused) {
  check_damaged(int64_list(field(1, Bytes{0x01, 0x80})));
  check_damaged(int64_list(Bytes{0x08}));
  check_damaged(int64_list(Bytes{0x08, 0xff}));
  for (size_t size = 1; size < 4; ++size) {
    check_damaged(float_list(field(1, Bytes(4 + size))));
    check_damaged(float_list(Bytes{0x0d} + Bytes(size)));
  }
}

TEST(sizes_past_the_end_are_refused) {
  for (uint8_t kind : {uint8_t{0x0a}, uint8_t{0x12}, uint8_t{0x1a}}) {
    check_damaged(Bytes{kind});
    check_damaged(Bytes{kind, 0x01});
    check_damaged(Bytes{kind, 0x02, 0x0a, 0x01});
    check_damaged(Bytes{kind} + varint(UINT64_MAX) + Bytes{0x00});
    check_damaged(Bytes{kind} + varint(uint64_t{1} << 63) + Bytes{0x00});
  }
}

TEST(tags_that_cannot_be_are_refused) {
  check_damaged({0x00, 0x00});              // field 0
  check_damaged({0x02, 0x00});              // field 0
  check_damaged({0x0c});                    // the end of a group that never began
  check_damaged({0x0e, 0x00});              // wire type 6
  check_damaged({0x23, 0x2c});              // a group that another one's end ends
  check_damaged({0x23});                    // a group without an end
  check_damaged(Bytes(200, 0x23));          // groups too deep
  check_damaged(int64_list({0x00, 0x00}));  // the same inside a list
  check_damaged(float_list({0x0c}));
  check_damaged(bytes_list({0x0e, 0x00}));
}

TEST(a_message_cut_at_any_byte_is_refused_or_shorter) {
  const Bytes feature = floats({1.0f}) + ints({1, 2}) + kUnknown + int64_list(single_ints({3, -4}));
  for (size_t size = 0; size < feature.size(); ++size) {
    const Parsed parsed = parse(Bytes(feature.begin(), feature.begin() + static_cast<ptrdiff_t>(size)));
    CHECK(parsed.ints.size() < 4);
  }
  check_ints(feature, {1, 2, 3, -4});
}

}  // namespace
}  // namespace feedline
