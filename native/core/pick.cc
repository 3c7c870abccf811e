#include "core/pick.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/prefetch.h"
#include "core/stream_copy.h"
#include "core/thread_pool.h"

namespace feedline {

namespace {

// What one thread copies at a time: enough to be worth sharing, and few enough picks to stay in the innermost
// cache while they are gone through column by column.
constexpr size_t kPartBytes = size_t{256} << 10;
constexpr size_t kFewest = 64, kMost = 1024;

bool outside(int64_t index, int64_t count) noexcept {
  return static_cast<uint64_t>(index) >= static_cast<uint64_t>(count);
}

const uint8_t* row_at(std::span<const Rows> sources, const Pick& pick) noexcept {
  const Rows& from = sources[pick.source];
  return from.data + pick.row * from.stride;
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
  for (size_t i = 0; i < picks.size(); ++i) {
    if (i + kAhead < picks.size()) prefetch(row_at(sources, picks[i + kAhead]), bytes);
    kCopy(out + i * bytes, row_at(sources, picks[i]), bytes);
  }
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

Flaw read_picks(std::span<const int64_t> counts, std::span<const int64_t> which,
                std::span<const int64_t> rows, std::vector<Pick>& picks) {
  picks.resize(which.size());
  for (size_t i = 0; i < which.size(); ++i) {
    const int64_t source = which[i];
    if (outside(source, static_cast<int64_t>(counts.size())))
      return {Flaw::Kind::kSource, static_cast<int64_t>(i), source};
    const int64_t row = rows[i];
    if (outside(row, counts[static_cast<size_t>(source)]))
      return {Flaw::Kind::kIndex, static_cast<int64_t>(i), row};
    picks[i] = {static_cast<size_t>(source), row};
  }
  return {};
}

void share_picks(size_t count, size_t bytes, const std::function<void(size_t, size_t)>& copy) {
  const size_t size = std::clamp(kPartBytes / std::max<size_t>(bytes, 1), kFewest, kMost);
  share_work((count + size - 1) / size,
             [&](size_t part) { copy(part * size, std::min(count, (part + 1) * size)); });
}

void pick_rows(std::span<const PickedRows> columns, std::span<const Pick> picks) {
  size_t bytes = 0;
  for (const PickedRows& column : columns) bytes += column.bytes;
  share_picks(picks.size(), bytes, [&](size_t begin, size_t end) {
    for (const PickedRows& column : columns) {
      const bool streams = column.bytes * picks.size() >= kStreamBytes;
      pick_column(column, picks.subspan(begin, end - begin), begin, streams);
    }
    end_stream();
  });
}

Flaw pick_ranges(std::span<const RangeSource> sources, size_t unit, std::span<const Pick> picks, Buffer& data,
                 Buffer& offsets) {
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
    const auto row = static_cast<size_t>(picks[i].row);
    const auto items = static_cast<int64_t>(source.data.size() / unit);
    const int64_t begin = source.offsets[row], end = source.offsets[row + 1];
    if (begin < 0) return {Flaw::Kind::kOffset, picks[i].row, begin};
    if (end < begin || end > items) return {Flaw::Kind::kOffset, picks[i].row + 1, end};
    ranges[i] = {source.data.data() + static_cast<size_t>(begin) * unit,
                 static_cast<size_t>(end - begin) * unit};
    // A long row picked very often is more than any memory holds, and would wrap.
    if (__builtin_add_overflow(total, end - begin, &total)) throw std::bad_alloc();
    ends[i + 1] = total;
  }
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(total), unit, &bytes)) throw std::bad_alloc();
  data = Buffer(bytes);
  share_picks(ranges.size(), bytes / std::max<size_t>(ranges.size(), 1), [&](size_t first, size_t last) {
    uint8_t* out = data.data() + static_cast<size_t>(ends[first]) * unit;
    for (size_t i = first; i < last; ++i) {
      if (i + kAhead < last) prefetch(ranges[i + kAhead].from, ranges[i + kAhead].bytes);
      if (ranges[i].bytes != 0) std::memcpy(out, ranges[i].from, ranges[i].bytes);
      out += ranges[i].bytes;
    }
  });
  return {};
}

}  // namespace feedline
