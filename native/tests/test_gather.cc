#include <algorithm>
#include <limits>
#include <new>
#include <vector>

#include "core/gather.h"
#include "tests/check.h"

namespace feedline {

namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// On the heap and exactly as large as it says, so that AddressSanitizer sees a step outside.
template <class T>
std::vector<T> numbers(size_t count) {
  std::vector<T> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = static_cast<T>(i * 7 + 3);
  return made;
}

std::span<const int64_t> offsets_in(const Buffer& buffer) {
  return {buffer.as<int64_t>(), buffer.size() / sizeof(int64_t)};
}

std::vector<uint8_t> copy_of(const Buffer& buffer) { return {buffer.data(), buffer.data() + buffer.size()}; }

}  // namespace

TEST(gather_rows_copies_the_rows_of_every_size) {
  for (const size_t bytes : {0, 1, 2, 3, 4, 8, 12, 16, 17, 64, 100, 512, 1000}) {
    const auto data = numbers<uint8_t>(bytes * 50);
    const Rows rows{data.data(), 50, static_cast<ptrdiff_t>(bytes), bytes};
    const std::vector<int64_t> indices = {49, 0, 0, 7, 31, 48, 2, 3, 4, 5, 6, 49};
    std::vector<uint8_t> out(bytes * indices.size());
    CHECK(!gather_rows(rows, indices, out.data()));
    for (size_t i = 0; i < indices.size(); ++i) {
      const auto wanted = data.begin() + indices[i] * static_cast<int64_t>(bytes);
      CHECK(std::equal(wanted, wanted + static_cast<int64_t>(bytes),
                       out.begin() + static_cast<int64_t>(i * bytes)));
    }
  }
}

TEST(gather_rows_follows_the_stride_backwards_too) {
  const auto data = numbers<int32_t>(20);
  const std::vector<int64_t> indices = {0, 3};
  int32_t out[2];
  const Rows apart{reinterpret_cast<const uint8_t*>(data.data()), 4, 5 * sizeof(int32_t), sizeof(int32_t)};
  CHECK(!gather_rows(apart, indices, reinterpret_cast<uint8_t*>(out)));
  CHECK_EQ(out[0], data[0]);
  CHECK_EQ(out[1], data[15]);
  const Rows backwards{reinterpret_cast<const uint8_t*>(data.data() + 19), 20, -4, sizeof(int32_t)};
  CHECK(!gather_rows(backwards, indices, reinterpret_cast<uint8_t*>(out)));
  CHECK_EQ(out[0], data[19]);
  CHECK_EQ(out[1], data[16]);
}

TEST(gather_rows_names_the_first_index_that_is_outside) {
  for (const size_t bytes : {0, 1, 2, 4, 8, 16, 24}) {
    const auto data = numbers<uint8_t>(bytes * 3);
    const Rows rows{data.data(), 3, static_cast<ptrdiff_t>(bytes), bytes};
    for (const int64_t bad : {int64_t{3}, int64_t{-1}, kHuge, -kHuge - 1}) {
      const std::vector<int64_t> indices = {2, 1, bad, -1};
      std::vector<uint8_t> out(bytes * indices.size());
      const Flaw flaw = gather_rows(rows, indices, out.data());
      CHECK(flaw.kind == Flaw::Kind::kIndex);
      CHECK_EQ(flaw.at, 2);
      CHECK_EQ(flaw.value, bad);
    }
  }
  const std::vector<int64_t> first = {0};
  CHECK(static_cast<bool>(gather_rows({nullptr, 0, 4, 4}, first, nullptr)));
}

TEST(gather_of_ranges_lays_the_rows_end_to_end) {
  const auto data = numbers<uint8_t>(2 * 10);
  const std::vector<int64_t> offsets = {1, 4, 4, 9, 10};  // a slice: it does not begin at 0
  const std::vector<int64_t> indices = {3, 0, 1, 0};
  const Ranges ranges{offsets, 10};

  Buffer lengths;
  CHECK(!gather_offsets(ranges, indices, lengths));
  const std::vector<int64_t> wanted = {0, 1, 4, 4, 7};
  CHECK(std::equal(wanted.begin(), wanted.end(), offsets_in(lengths).begin()));

  Buffer values;
  CHECK(!gather_values(data, 2, ranges, indices, offsets_in(lengths), values));
  std::vector<uint8_t> joined;
  for (const int64_t at : {9, 1, 2, 3, 1, 2, 3}) {
    joined.insert(joined.end(), data.begin() + 2 * at, data.begin() + 2 * at + 2);
  }
  CHECK(copy_of(values) == joined);

  Buffer positions;
  CHECK(!gather_positions(ranges, indices, offsets_in(lengths), positions));
  const std::vector<int64_t> places = {9, 1, 2, 3, 1, 2, 3};
  CHECK_EQ(positions.size(), places.size() * sizeof(int64_t));
  CHECK(std::equal(places.begin(), places.end(), positions.as<int64_t>()));
}

TEST(gather_of_ranges_refuses_offsets_that_lead_outside) {
  struct Case {
    std::vector<int64_t> offsets;
    int64_t at;
  };
  for (const auto& [offsets, at] : std::vector<Case>{{{0, 11}, 1},
                                                     {{-1, 2}, 0},
                                                     {{5, 4}, 1},
                                                     {{0, kHuge}, 1},
                                                     {{-kHuge - 1, kHuge}, 0},
                                                     {{kHuge, kHuge}, 1},
                                                     {{11, 11}, 1}}) {
    const std::vector<int64_t> indices = {0};
    Buffer out;
    const Flaw flaw = gather_offsets({offsets, 10}, indices, out);
    CHECK(flaw.kind == Flaw::Kind::kOffset);
    CHECK_EQ(flaw.at, at);
  }
  const std::vector<int64_t> offsets = {0, 1};
  for (const int64_t bad : {int64_t{1}, int64_t{-1}, kHuge}) {
    const std::vector<int64_t> indices = {0, bad};
    Buffer out;
    const Flaw flaw = gather_offsets({offsets, 10}, indices, out);
    CHECK(flaw.kind == Flaw::Kind::kIndex);
    CHECK_EQ(flaw.at, 1);
  }
}

TEST(a_row_that_grew_since_it_was_measured_does_not_overrun) {
  const auto data = numbers<uint8_t>(10);
  std::vector<int64_t> offsets = {0, 2, 10};
  const std::vector<int64_t> indices = {0};
  Buffer lengths;
  CHECK(!gather_offsets({offsets, 10}, indices, lengths));
  offsets[1] = 9;  // as another thread might
  Buffer values;
  CHECK(gather_values(data, 1, {offsets, 10}, indices, offsets_in(lengths), values).kind ==
        Flaw::Kind::kOffset);
  CHECK(gather_positions({offsets, 10}, indices, offsets_in(lengths), values).kind == Flaw::Kind::kOffset);
}

TEST(a_total_that_no_memory_holds_is_bad_alloc_and_does_not_wrap) {
  const std::vector<int64_t> offsets = {0, kHuge / 2};
  const std::vector<int64_t> indices = {0, 0, 0};
  bool thrown = false;
  try {
    Buffer out;
    gather_offsets({offsets, kHuge}, indices, out);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
}

TEST(join_offsets_begins_each_part_where_the_last_one_ended) {
  const std::vector<int64_t> one = {5, 7, 7};
  const std::vector<int64_t> none = {9};
  const std::vector<int64_t> other = {0, 1};
  const std::vector<std::span<const int64_t>> parts = {one, none, {}, other};
  const Buffer joined = join_offsets(parts);
  const std::vector<int64_t> wanted = {0, 2, 2, 3};
  CHECK_EQ(joined.size(), wanted.size() * sizeof(int64_t));
  CHECK(std::equal(wanted.begin(), wanted.end(), joined.as<int64_t>()));
  const std::vector<int64_t> wild = {-kHuge - 1, kHuge};
  const std::vector<std::span<const int64_t>> twice = {wild, wild};
  CHECK_EQ(join_offsets(twice).size(), 3 * sizeof(int64_t));
}

TEST(first_fall_finds_the_fall_wherever_it_is) {
  for (const size_t count : {0, 1, 2, 255, 256, 257, 258, 600}) {
    std::vector<int64_t> offsets(count);
    for (size_t i = 0; i < count; ++i) offsets[i] = static_cast<int64_t>(i / 2);
    CHECK_EQ(first_fall(offsets), -1);
    for (size_t at = 1; at < count; ++at) {
      const int64_t kept = offsets[at - 1];
      offsets[at - 1] = kHuge;
      CHECK_EQ(first_fall(offsets), static_cast<int64_t>(at));
      offsets[at - 1] = kept;
    }
  }
}

}  // namespace feedline
