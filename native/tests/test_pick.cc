#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "core/pick.h"
#include "tests/check.h"

namespace feedline {

namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// On the heap and exactly as large as it says, so that AddressSanitizer sees a step outside.
std::vector<uint8_t> bytes_of(size_t count, uint8_t mask) {
  std::vector<uint8_t> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = static_cast<uint8_t>((i * 7 + 3) ^ mask);
  return made;
}

// More than a chunk of picks out of two sources, in no order.
std::vector<Pick> many_picks(uint32_t rows_of_first, uint32_t rows_of_second) {
  std::vector<Pick> picks;
  for (uint32_t i = 0; i < 1500; ++i) {
    const uint32_t source = i % 3 == 0 ? 0 : 1;
    picks.push_back({source, i * 31 % (source == 0 ? rows_of_first : rows_of_second)});
  }
  return picks;
}

std::vector<int64_t> packed_all(const std::vector<Pick>& picks) {
  std::vector<int64_t> all;
  for (const Pick& pick : picks) all.push_back(packed(pick));
  return all;
}

}  // namespace

TEST(pick_rows_copies_all_columns_of_several_sources) {
  const std::vector<Pick> picks = many_picks(20, 30);
  const std::vector<size_t> sizes = {0, 1, 2, 4, 8, 16, 24, 1000};
  std::vector<std::vector<uint8_t>> data, out;
  std::vector<std::vector<Rows>> sources;
  for (const size_t bytes : sizes) {
    const auto stride = static_cast<ptrdiff_t>(bytes);
    data.push_back(bytes_of(bytes * 20, 0));
    data.push_back(bytes_of(bytes * 30, 0x55));
    // The second source lies backwards.
    const uint8_t* const last = data.back().data() + (bytes == 0 ? 0 : 29 * bytes);
    sources.push_back({{data[data.size() - 2].data(), 20, stride, bytes}, {last, 30, -stride, bytes}});
    out.emplace_back(bytes * picks.size());
  }
  std::vector<PickedRows> columns;
  for (size_t i = 0; i < sizes.size(); ++i) columns.push_back({sources[i], sizes[i], out[i].data()});
  const std::vector<int64_t> counts = {20, 30};
  const std::vector<int64_t> all = packed_all(picks);
  CHECK(!pick_rows(columns, {counts, all})->finish());
  for (size_t c = 0; c < sizes.size(); ++c) {
    for (size_t i = 0; i < picks.size(); ++i) {
      const Rows& from = sources[c][picks[i].source];
      const uint8_t* const wanted = from.data + static_cast<ptrdiff_t>(picks[i].row) * from.stride;
      CHECK(std::equal(wanted, wanted + sizes[c], out[c].data() + i * sizes[c]));
    }
  }
}

TEST(shared_picks_name_the_first_that_is_not_there) {
  const std::vector<int64_t> counts = {4, 0};
  const auto flaw_of = [&](const std::vector<int64_t>& picks) {
    SharedPicks shared({counts, picks}, 1, [&](size_t first, std::span<const Pick> part) {
      for (size_t i = 0; i < part.size(); ++i) CHECK_EQ(packed(part[i]), picks[first + i]);
    });
    return shared.finish();
  };
  // In several parts, the second and the last of which have one.
  std::vector<int64_t> many(5000, packed({0, 3}));
  CHECK(!flaw_of(many));
  many[4999] = -1;
  for (const auto& [bad, kind, value] :
       {std::tuple{packed({2, 0}), Flaw::Kind::kSource, int64_t{2}},
        {int64_t{-1}, Flaw::Kind::kSource, int64_t{UINT32_MAX}},
        {kHuge, Flaw::Kind::kSource, int64_t{INT32_MAX}},
        {packed({0, 4}), Flaw::Kind::kIndex, int64_t{4}},
        {packed({1, 0}), Flaw::Kind::kIndex, int64_t{0}},
        {packed({0, UINT32_MAX}), Flaw::Kind::kIndex, int64_t{UINT32_MAX}}}) {
    many[1500] = bad;
    const Flaw flaw = flaw_of(many);
    CHECK_EQ(flaw.kind, kind);
    CHECK_EQ(flaw.at, 1500);
    CHECK_EQ(flaw.value, value);
  }
  CHECK(!flaw_of({}));
}

TEST(renumber_changes_sources_and_leaves_rows) {
  const std::vector<int64_t> picks = packed_all({{1, 7}, {0, UINT32_MAX}, {1, 0}}), numbers = {5, 9};
  std::vector<int64_t> out(3);
  CHECK(!renumber(picks, numbers, out.data()));
  CHECK(out == packed_all({{9, 7}, {5, UINT32_MAX}, {9, 0}}));
  const std::vector<int64_t> fewer = {5};
  CHECK_EQ(renumber(picks, fewer, out.data()).kind, Flaw::Kind::kSource);
}

TEST(pick_ranges_lays_rows_end_to_end) {
  const auto one = bytes_of(20, 0), two = bytes_of(16, 0x55);
  // Rows of a slice: they need not begin at the first value.
  const std::vector<int64_t> of_one = {1, 1, 4, 9}, of_two = {0, 8};
  const std::vector<RangeSource> sources = {{one, of_one}, {two, of_two}};
  const std::vector<int64_t> picks = packed_all({{1, 0}, {0, 2}, {0, 0}, {0, 1}, {1, 0}}), counts = {3, 1};
  Buffer data, offsets;
  CHECK(!pick_ranges(sources, 2, {counts, picks}, data, offsets));
  const std::vector<int64_t> wanted_offsets = {0, 8, 13, 13, 16, 24};
  CHECK(std::equal(wanted_offsets.begin(), wanted_offsets.end(), offsets.as<int64_t>()));
  std::vector<uint8_t> wanted = two;
  wanted.insert(wanted.end(), one.begin() + 8, one.begin() + 18);
  wanted.insert(wanted.end(), one.begin() + 2, one.begin() + 8);
  wanted.insert(wanted.end(), two.begin(), two.end());
  CHECK_EQ(data.size(), wanted.size());
  CHECK(std::equal(wanted.begin(), wanted.end(), data.data()));
}

TEST(pick_ranges_refuses_offsets_that_lead_outside) {
  const auto bytes = bytes_of(8, 0);
  Buffer data, offsets;
  for (const std::vector<int64_t>& bad :
       {std::vector<int64_t>{-1, 2}, {3, 2}, {0, 9}, {0, kHuge}, {-kHuge - 1, kHuge}}) {
    const std::vector<RangeSource> sources = {{bytes, bad}};
    const std::vector<int64_t> picks = {0}, counts = {1};
    CHECK_EQ(pick_ranges(sources, 1, {counts, picks}, data, offsets).kind, Flaw::Kind::kOffset);
  }
}

}  // namespace feedline
