#include <string>

#include "core/turn_reader.h"
#include "tests/check.h"
#include "tests/id_files.h"

namespace feedline {
namespace {

using namespace samples;
using Outcome = BlockReader::Outcome;

// The ids of all rows, and where the files stand after them.
std::vector<int64_t> read_all(TurnReader& reader, std::vector<Start>& places) {
  std::vector<int64_t> ids;
  while (true) {
    TurnReader::Block block;
    Outcome outcome = Outcome::kWaiting;
    while (outcome == Outcome::kWaiting) outcome = reader.next(std::chrono::milliseconds(50), block);
    if (outcome == Outcome::kEnd) return ids;
    CHECK(!block.decoded.fault);
    const int64_t* const some = block.decoded.columns[0].data.as<int64_t>();
    ids.insert(ids.end(), some, some + block.decoded.rows);
    places = block.places;
  }
}

ReadOptions few_rows() {
  ReadOptions options;
  options.rows = 64;
  return options;
}

TEST(records_come_by_turns_until_a_file_ends_in_its_turn) {
  const File a(rows(0, 5000)), b(rows(10'000, 901)), c(rows(20'000, 5000));
  for (const size_t turn : {1, 2, 7}) {
    TurnReader reader({{a.path(), {}}, {b.path(), {}}, {c.path(), {}}}, schema_of_ids(), few_rows(), turn);
    std::vector<Start> places;
    const std::vector<int64_t> ids = read_all(reader, places);
    std::vector<int64_t> expected;
    std::vector<int64_t> given = {0, 0, 0};
    for (size_t at = 0;; at = (at + 1) % 3) {
      for (size_t i = 0; i < turn && given[1] <= 901; ++i) {
        if (at == 1 && given[1] == 901) {
          given[1] = 902;
          break;
        }
        expected.push_back(10'000 * static_cast<int64_t>(at) + given[at]++);
      }
      if (given[1] == 902) break;
    }
    CHECK(ids == expected);
    CHECK_EQ(places[1].number, 901);
    CHECK_EQ(places[0].number, given[0]);
    CHECK_EQ(places[2].number, given[2]);
  }
}

TEST(each_file_begins_at_its_place) {
  const File a(rows(0, 100)), b(rows(1000, 100));
  const uint64_t size = rows(0, 1).size();
  TurnReader reader({{a.path(), {0, 10 * size, 10}, 5}, {b.path(), {}, 98}}, schema_of_ids(), few_rows(), 1);
  std::vector<Start> places;
  CHECK(read_all(reader, places) == (std::vector<int64_t>{15, 1098, 16, 1099, 17}));
  CHECK_EQ(places[0].number, 18);
  CHECK_EQ(places[1].number, 100);
}

TEST(it_ends_in_front_of_what_is_wrong) {
  Bytes damaged = rows(0, 50);
  damaged.back() ^= 1;
  const File good(rows(1000, 100)), bad(damaged), other(rows(0, 5) + framed(example(entry("x", ints({1})))));
  std::vector<Start> places;
  TurnReader payload({{good.path(), {}}, {bad.path(), {}}}, schema_of_ids(), few_rows(), 1);
  CHECK_EQ(read_all(payload, places).size(), size_t{99});
  CHECK_EQ(places[1].number, 49);
  TurnReader unfit({{other.path(), {}}, {good.path(), {}}}, schema_of_ids(), few_rows(), 1);
  CHECK_EQ(read_all(unfit, places).size(), size_t{10});
  TurnReader missing({{good.path(), {}}, {"/nowhere", {}}}, schema_of_ids(), few_rows(), 1);
  CHECK_EQ(read_all(missing, places).size(), size_t{1});
  TurnReader nothing({{"/nowhere", {}}, {good.path(), {}}}, schema_of_ids(), few_rows(), 1);
  CHECK(read_all(nothing, places).empty());
}

TEST(a_turn_reader_may_be_destroyed_at_any_moment) {
  const File file(rows(0, 5000));
  for (int turn = 0; turn < 300; ++turn) {
    TurnReader reader({{file.path(), {}}, {file.path(), {}}}, schema_of_ids(), few_rows(), 1);
    TurnReader::Block block;
    for (int taken = 0; taken < turn % 4; ++taken) (void)reader.next(std::chrono::milliseconds(50), block);
  }
}

}  // namespace
}  // namespace feedline
