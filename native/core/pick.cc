#include "core/pick.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "core/prefetch.h"
#include "core/stream_copy.h"

namespace feedline {

namespace {

// What one thread copies at a time: enough to be worth sharing, and few enough picks to stay in the innermost
// cache while they are gone through column by column.
constexpr size_t kPartBytes = size_t{256} << 10;
constexpr size_t kFewest = 64, kMost = 1024;

size_t part_size(size_t bytes) noexcept {
  return std::clamp(kPartBytes / std::max<size_t>(bytes, 1), kFewest, kMost);
}

size_t parts_of(size_t count, size_t size) noexcept { return (count + size - 1) / size; }

const uint8_t* row_at(std::span<const Rows> sources, const Pick& pick) noexcept {
  const Rows& from = sources[pick.source];
  return from.data + static_cast<ptrdiff_t>(pick.row) * from.stride;
}

// With the size known, memcpy is one or two moves, and many loads are under way at once.
template <size_t kBytes>
void pick_small(std::span<const Rows> sources, std::span<const Pick> picks, uint8_t* out) noexcept {
  for (const Pick& pick : picks) {
    std::memcpy(out, row_at(sources, pick), kBytes);
    out += kBytes;
  }
}

template <auto kCopy>
void pick_large(std::span<const Rows> sources, size_t bytes, std::span<const Pick> picks,
                uint8_t* out) noexcept {
  each_asked_for(
      picks.size(), rows_ahead(bytes), [&](size_t i) { prefetch(row_at(sources, picks[i]), bytes); },
      [&](size_t i) { kCopy(out + i * bytes, row_at(sources, picks[i]), bytes); });
}

void pick_column(const PickedRows& column, std::span<const Pick> picks, size_t first, bool streams) noexcept {
  uint8_t* const out = column.out + first * column.bytes;
  switch (column.bytes) {
    case 0:
      return;
    case 1:
      return pick_small<1>(column.sources, picks, out);
    case 2:
      return pick_small<2>(column.sources, picks, out);
    case 4:
      return pick_small<4>(column.sources, picks, out);
    case 8:
      return pick_small<8>(column.sources, picks, out);
    case 16:
      return pick_small<16>(column.sources, picks, out);
    default:
      streams ? pick_large<stream_copy>(column.sources, column.bytes, picks, out)
              : pick_large<std::memcpy>(column.sources, column.bytes, picks, out);
  }
}

}  // namespace

Flaw Picks::read(size_t first, std::span<Pick> out) const noexcept {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto pick = static_cast<uint64_t>(picks[first + i]);
    const uint64_t source = pick >> 32, row = pick & UINT32_MAX;
    const auto at = static_cast<int64_t>(first + i);
    if (source >= counts.size()) return {Flaw::Kind::kSource, at, static_cast<int64_t>(source)};
    if (row >= static_cast<uint64_t>(counts[source]))
      return {Flaw::Kind::kIndex, at, static_cast<int64_t>(row)};
    out[i] = {static_cast<uint32_t>(source), static_cast<uint32_t>(row)};
  }
  return {};
}

void share_rows(size_t count, size_t bytes, const std::function<void(size_t, size_t)>& copy) {
  const size_t size = part_size(bytes);
  SharedWork work(parts_of(count, size),
                  [&](size_t part) { copy(part * size, std::min(count, (part + 1) * size)); });
  work.finish();
}

SharedPicks::SharedPicks(const Picks& picks, size_t bytes, Copy copy)
    : picks_(picks),
      part_size_(part_size(bytes)),
      copy_(std::move(copy)),
      work_(parts_of(picks.size(), part_size_), [this](size_t number) { copy_part(number); }) {}

Flaw SharedPicks::finish() {
  work_.finish();
  return flaw_;
}

void SharedPicks::copy_part(size_t number) {
  const size_t first = number * part_size_;
  std::array<Pick, kMost> memory;
  const std::span<Pick> part(memory.data(), std::min(part_size_, picks_.size() - first));
  if (const Flaw flaw = picks_.read(first, part)) {
    std::lock_guard lock(mutex_);
    if (!flaw_ || flaw.at < flaw_.at) flaw_ = flaw;
  } else {
    copy_(first, part);
  }
}

std::unique_ptr<SharedPicks> pick_rows(std::vector<PickedRows> columns, const Picks& picks) {
  size_t bytes = 0;
  for (const PickedRows& column : columns) bytes += column.bytes;
  const size_t count = picks.size();
  return std::make_unique<SharedPicks>(
      picks, bytes, [columns = std::move(columns), count](size_t first, std::span<const Pick> part) {
        for (const PickedRows& column : columns) {
          const bool streams = column.bytes * count >= kStreamBytes;
          pick_column(column, part, first, streams);
        }
        end_stream();
      });
}

Flaw pick_ranges(std::span<const RangeSource> sources, size_t unit, const Picks& all, Buffer& data,
                 Buffer& offsets) {
  std::vector<Pick> picks(all.size());
  if (const Flaw flaw = all.read(0, picks)) return flaw;
  struct Range {
    const uint8_t* from;
    size_t bytes;
  };
  std::vector<Range> ranges(picks.size());
  offsets = Buffer((picks.size() + 1) * sizeof(int64_t));
  int64_t* const ends = offsets.as<int64_t>();
  int64_t total = 0;
  ends[0] = 0;
  for (size_t i = 0; i < picks.size(); ++i) {
    const RangeSource& source = sources[picks[i].source];
    const size_t row = picks[i].row;
    const auto items = static_cast<int64_t>(source.data.size() / unit);
    const int64_t begin = source.offsets[row], end = source.offsets[row + 1];
    if (begin < 0) return {Flaw::Kind::kOffset, static_cast<int64_t>(row), begin};
    if (end < begin || end > items) return {Flaw::Kind::kOffset, static_cast<int64_t>(row + 1), end};
    ranges[i] = {source.data.data() + static_cast<size_t>(begin) * unit,
                 static_cast<size_t>(end - begin) * unit};
    // A long row picked very often is more than any memory holds, and would wrap.
    if (__builtin_add_overflow(total, end - begin, &total)) throw std::bad_alloc();
    ends[i + 1] = total;
  }
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(total), unit, &bytes)) throw std::bad_alloc();
  data = Buffer(bytes);
  const size_t mean = bytes / std::max<size_t>(ranges.size(), 1);
  share_rows(ranges.size(), mean, [&](size_t first, size_t last) {
    uint8_t* out = data.data() + static_cast<size_t>(ends[first]) * unit;
    const auto part = std::span(ranges).subspan(first, last - first);
    each_asked_for(
        part.size(), rows_ahead(mean), [&](size_t i) { prefetch(part[i].from, part[i].bytes); },
        [&](size_t i) {
          if (part[i].bytes != 0) std::memcpy(out, part[i].from, part[i].bytes);
          out += part[i].bytes;
        });
  });
  return {};
}

Flaw renumber(std::span<const int64_t> picks, std::span<const int64_t> numbers, int64_t* out) noexcept {
  for (size_t i = 0; i < picks.size(); ++i) {
    const auto pick = static_cast<uint64_t>(picks[i]);
    const uint64_t source = pick >> 32;
    if (source >= numbers.size())
      return {Flaw::Kind::kSource, static_cast<int64_t>(i), static_cast<int64_t>(source)};
    out[i] = static_cast<int64_t>(static_cast<uint64_t>(numbers[source]) << 32 | (pick & UINT32_MAX));
  }
  return {};
}

}  // namespace feedline
