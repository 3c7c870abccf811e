#include <limits>
#include <vector>

#include "core/places.h"
#include "tests/check.h"

namespace feedline {

TEST(places_are_found_again_in_any_order) {
  Places places;
  CHECK(!places.add_all(7, 3));
  const std::vector<int64_t> sources = {9, 8}, rows = {UINT32_MAX, 5};
  CHECK(!places.add(sources, rows));
  CHECK(!places.add_all(1, 0));
  CHECK_EQ(places.size(), 5);
  const std::vector<int64_t> wanted = {4, 0, 3, 2, 2};
  std::vector<int64_t> source(5), row(5);
  CHECK(!places.find(wanted, source.data(), row.data()));
  CHECK(source == (std::vector<int64_t>{8, 7, 9, 7, 7}));
  CHECK(row == (std::vector<int64_t>{5, 0, UINT32_MAX, 2, 2}));
}

TEST(what_is_not_there_is_a_flaw) {
  Places places;
  CHECK(!places.add_all(0, 2));
  int64_t source[1], row[1];
  for (const int64_t bad : {int64_t{2}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    const std::vector<int64_t> wanted = {bad};
    CHECK_EQ(places.find(wanted, source, row).kind, Flaw::Kind::kIndex);
  }
  for (const int64_t bad : {int64_t{-1}, int64_t{1} << 32}) {
    const std::vector<int64_t> good = {0, 1}, wrong = {0, bad};
    CHECK_EQ(places.add(good, wrong).kind, Flaw::Kind::kIndex);
    CHECK_EQ(places.add(wrong, good).kind, Flaw::Kind::kSource);
    CHECK_EQ(places.add_all(bad, 1).kind, Flaw::Kind::kSource);
    CHECK_EQ(places.add_all(1, bad).kind, Flaw::Kind::kIndex);
  }
  CHECK_EQ(places.size(), 2);
}

}  // namespace feedline
