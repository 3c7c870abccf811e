#include <string>
#include <vector>

#include "check.h"
#include "core/survey.h"

using namespace feedline;

namespace {

std::string field(uint32_t number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  size_t size = bytes.size();
  for (; size >= 0x80; size >>= 7) out += static_cast<char>(size | 0x80);
  return out + static_cast<char>(size) + bytes;
}

std::string ints(const std::string& varints) { return field(3, varints.empty() ? "" : field(1, varints)); }
std::string strings(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += field(1, value);
  return field(1, list);
}
std::string entry(const std::string& key, const std::string& value) {
  return field(1, field(1, key) + field(2, value));
}
std::string example(const std::string& entries) { return field(1, entries); }

Fault add(Survey& survey, const std::string& record) {
  return survey.add({reinterpret_cast<const uint8_t*>(record.data()), record.size()});
}

uint64_t kind(const KeySurvey& key, ValueKind of) { return key.kinds[static_cast<size_t>(of)]; }

}  // namespace

TEST(kinds_values_and_bytes_are_counted_by_key) {
  Survey survey;
  CHECK(!add(survey, example(entry("a", ints("\x01")) + entry("b", strings({"x", "yyy"})))));
  CHECK(!add(survey, example(entry("b", strings({})) + entry("a", ints("\x01\x02")))));
  CHECK(!add(survey, example(entry("a", ""))));
  CHECK_EQ(survey.records(), 3u);
  CHECK_EQ(survey.malformed(), 0u);
  CHECK(!survey.sequence());
  CHECK_EQ(survey.context().size(), 2u);
  const KeySurvey& a = survey.context()[0];
  CHECK_EQ(a.key, "a");
  CHECK_EQ(a.records, 3u);
  CHECK_EQ(kind(a, ValueKind::kInt64), 2u);
  CHECK_EQ(kind(a, ValueKind::kNone), 1u);
  CHECK_EQ(a.values.least, 0u);
  CHECK_EQ(a.values.most, 2u);
  CHECK(a.bytes.empty());
  const KeySurvey& b = survey.context()[1];
  CHECK_EQ(b.records, 2u);
  CHECK_EQ(b.values.most, 2u);
  CHECK_EQ(b.bytes.least, 1u);
  CHECK_EQ(b.bytes.most, 3u);
}

TEST(the_last_of_equal_keys_wins) {
  Survey survey;
  CHECK(!add(survey,
             example(entry("a", ints("\x01\x01")) + entry("b", ints("\x01")) + entry("a", strings({"x"})))));
  CHECK(!add(survey, example(entry("a", ints("\x01\x01"))) + example(entry("a", strings({"y"})))));
  const KeySurvey& a = survey.context()[0];
  CHECK_EQ(a.records, 2u);
  CHECK_EQ(kind(a, ValueKind::kBytes), 2u);
  CHECK_EQ(kind(a, ValueKind::kInt64), 0u);
  CHECK_EQ(a.values.most, 1u);
}

TEST(feature_lists_make_it_a_sequence_and_count_steps) {
  Survey survey;
  const std::string steps = field(1, ints("\x01\x02")) + field(1, ints("\x01\x02"));
  CHECK(!add(survey, example(entry("id", ints("\x01"))) + field(2, entry("s", steps))));
  CHECK(!add(survey, field(2, entry("s", ""))));
  CHECK(survey.sequence());
  CHECK_EQ(survey.context()[0].key, "id");
  const KeySurvey& s = survey.feature_lists()[0];
  CHECK_EQ(s.records, 2u);
  CHECK_EQ(kind(s, ValueKind::kInt64), 2u);
  CHECK_EQ(s.values.least, 2u);
  CHECK_EQ(s.steps.least, 0u);
  CHECK_EQ(s.steps.most, 2u);
}

TEST(a_malformed_record_is_counted_and_leaves_no_trace) {
  const std::string good = example(entry("a", ints("\x01")));
  Survey survey;
  CHECK(!add(survey, good));
  CHECK(add(survey, example(entry("b", ints("\x01"))) + "\xff"));
  CHECK(add(survey, example(entry("\xff\xfe", ints("\x01")))));
  CHECK(add(survey, example(entry("a", ints("\x01"))) + field(2, entry("c", "\x0a\x05"))));
  for (size_t size = 1; size < good.size(); ++size) {
    const std::vector<uint8_t> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
    CHECK(survey.add(cut));
  }
  CHECK(!add(survey, example(entry("d", ints("\x01")) + entry("a", ints("\x01")))));
  CHECK_EQ(survey.records(), survey.malformed() + 2);
  CHECK(!survey.sequence());
  CHECK_EQ(survey.context().size(), 2u);
  CHECK_EQ(survey.context()[0].records, 2u);
  CHECK_EQ(survey.context()[1].key, "d");
  CHECK(survey.feature_lists().empty());
}

TEST(ever_new_keys_do_not_fill_the_memory) {
  Survey survey;
  for (int i = 0; i < 12'000; ++i)
    CHECK(!add(survey, example(entry("key" + std::to_string(i), ints("\x01")))));
  CHECK(survey.too_many_keys());
  CHECK_EQ(survey.context().size(), 10'000u);
  CHECK_EQ(survey.malformed(), 0u);

  Survey long_keys;
  for (char c = 'a'; c <= 'z'; ++c)
    CHECK(!add(long_keys, example(entry(std::string(1 << 20, c), ints("\x01")))));
  CHECK(long_keys.too_many_keys());
  CHECK(long_keys.context().size() < 20);
}
