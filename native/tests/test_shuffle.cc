#include <algorithm>
#include <numeric>
#include <vector>

#include "core/shuffle.h"
#include "tests/check.h"

namespace feedline {
namespace {

// All numbers from 0 to `end` - 1 through a buffer of `size`, `at_once` draws at a time.
std::vector<int64_t> shuffled(uint64_t key, int64_t size, int64_t end, size_t at_once) {
  std::vector<int64_t> slots(static_cast<size_t>(std::min(size, end)));
  std::iota(slots.begin(), slots.end(), 0);
  const auto filled = static_cast<int64_t>(slots.size());
  ShuffleBuffer buffer{slots, filled, filled, end, 0};
  std::vector<int64_t> all, some(at_once);
  while (const size_t drawn = draw(key, buffer, some))
    all.insert(all.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(drawn));
  CHECK_EQ(buffer.filled, 0);
  CHECK_EQ(buffer.draws, static_cast<uint64_t>(end));
  return all;
}

TEST(every_number_is_drawn_once_and_none_before_it_was_in_the_buffer) {
  for (const int64_t size : {1, 2, 7, 100, 1000}) {
    const auto all = shuffled(42, size, 500, 64);
    for (size_t i = 0; i < all.size(); ++i) CHECK(all[i] < static_cast<int64_t>(i) + size);
    auto sorted = all;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int64_t> wanted(500);
    std::iota(wanted.begin(), wanted.end(), 0);
    CHECK(sorted == wanted);
  }
}

TEST(the_order_depends_on_the_key_and_not_on_how_many_are_drawn_at_once) {
  const auto one = shuffled(1, 50, 300, 300);
  for (size_t at_once : {1, 2, 7, 64}) CHECK(shuffled(1, 50, 300, at_once) == one);
  CHECK(shuffled(2, 50, 300, 300) != one);
}

TEST(a_buffer_of_one_changes_nothing) {
  const auto all = shuffled(3, 1, 100, 10);
  CHECK(std::is_sorted(all.begin(), all.end()));
}

TEST(each_number_comes_first_equally_often) {
  // 8 numbers, 8,000 keys: 1,000 each, and with 7 degrees of freedom 30 is beyond one chance in 10,000.
  std::vector<int> first(8);
  for (uint64_t key = 0; key < 8000; ++key) ++first[static_cast<size_t>(shuffled(key, 8, 8, 8)[0])];
  double chi_square = 0;
  for (int count : first) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK(chi_square < 30);
}

TEST(values_come_in_the_order_of_their_numbers) {
  constexpr int64_t kCount = 3000, kSize = 700;
  std::vector<int64_t> values(kCount), slots(kSize), out(kCount + 1);
  for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = 7 * i;
  std::iota(slots.begin(), slots.end(), 0);
  ShuffleBuffer buffer{slots, kSize, kSize, kCount, 0};
  size_t drawn = 0;
  CHECK(!draw_values(5, buffer, values, out, drawn));
  CHECK_EQ(drawn, static_cast<size_t>(kCount));
  const auto numbers = shuffled(5, kSize, kCount, 1000);
  for (size_t i = 0; i < drawn; ++i) CHECK_EQ(out[i], 7 * numbers[i]);
}

TEST(a_number_without_a_value_is_a_flaw) {
  std::vector<int64_t> slots{3, -1, 2}, values(3), out(3);
  ShuffleBuffer buffer{slots, 3, 3, 3, 0};
  size_t drawn = 0;
  CHECK(draw_values(5, buffer, values, out, drawn).kind == Flaw::Kind::kIndex);
}

TEST(an_empty_buffer_gives_nothing) {
  CHECK(shuffled(1, 5, 0, 10).empty());
  ShuffleBuffer buffer;
  CHECK_EQ(draw(1, buffer, {}), 0);
}

}  // namespace
}  // namespace feedline
