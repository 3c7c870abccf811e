// Rows picked out of several sources: row rows[i] of source which[i], for all columns of a block at once.
//
// Like indices in core/gather.h, picks are the caller's word: each is read once, checked and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/gather.h"

namespace feedline {

struct Pick {
  size_t source;
  int64_t row;
};

// The picks out of sources of `counts` rows. A flaw in `which` has kSource. Throws std::bad_alloc.
Flaw read_picks(std::span<const int64_t> counts, std::span<const int64_t> which,
                std::span<const int64_t> rows, std::vector<Pick>& picks);

// Calls copy(begin, end) for all of `count` picks, of about `bytes` each: parts of them at the same time, in
// several threads.
void share_picks(size_t count, size_t bytes, const std::function<void(size_t begin, size_t end)>& copy);

// A dense column of each source, and where its picked rows go. All rows have `bytes` bytes.
struct PickedRows {
  std::span<const Rows> sources;
  size_t bytes = 0;
  uint8_t* out = nullptr;
};

void pick_rows(std::span<const PickedRows> columns, std::span<const Pick> picks);

// A ragged column of a source: row i is the items offsets[i] to offsets[i + 1] of `data`.
struct RangeSource {
  std::span<const uint8_t> data;
  std::span<const int64_t> offsets;
};

// Picked rows of items of `unit` bytes laid end to end in `data`, and their offsets. Throws std::bad_alloc.
Flaw pick_ranges(std::span<const RangeSource> sources, size_t unit, std::span<const Pick> picks, Buffer& data,
                 Buffer& offsets);

}  // namespace feedline
