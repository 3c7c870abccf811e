// Rows picked out of several sources, for all columns of a block at once.
//
// A pick is a number: that of the source in its upper half, that of the row in its lower one. Like indices in
// core/gather.h, picks are the caller's word: each is read once, checked and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/gather.h"
#include "core/thread_pool.h"

namespace feedline {

struct Pick {
  uint32_t source;
  uint32_t row;
};

constexpr int64_t packed(Pick pick) noexcept {
  return static_cast<int64_t>(uint64_t{pick.source} << 32 | pick.row);
}

// Picks, and the numbers of rows of the sources that they are out of.
struct Picks {
  std::span<const int64_t> counts;
  std::span<const int64_t> picks;

  size_t size() const noexcept { return picks.size(); }
  // `out` holds all from `first` on that fit. The first flaw: kSource, or kIndex.
  Flaw read(size_t first, std::span<Pick> out) const noexcept;
};

// Calls copy(first, part) for all picks, of about `bytes` each: parts of them at the same time, in threads of
// the pool from now on, and in those that call finish().
class SharedPicks {
 public:
  using Copy = std::function<void(size_t first, std::span<const Pick> part)>;

  // Throws std::bad_alloc.
  SharedPicks(const Picks& picks, size_t bytes, Copy copy);

  // The first flaw. The part that it is in was left out.
  Flaw finish();

 private:
  void copy_part(size_t number);

  const Picks picks_;
  const size_t part_size_;
  const Copy copy_;
  std::mutex mutex_;
  Flaw flaw_;
  SharedWork work_;  // the last, because it uses the others
};

// Calls copy(begin, end) for all of `count` rows in the same way.
void share_rows(size_t count, size_t bytes, const std::function<void(size_t begin, size_t end)>& copy);

// A dense column of each source, and where its picked rows go. All rows have `bytes` bytes.
struct PickedRows {
  std::span<const Rows> sources;
  size_t bytes = 0;
  uint8_t* out = nullptr;
};

// Throws std::bad_alloc.
std::unique_ptr<SharedPicks> pick_rows(std::vector<PickedRows> columns, const Picks& picks);

// A ragged column of a source: row i is the items offsets[i] to offsets[i + 1] of `data`.
struct RangeSource {
  std::span<const uint8_t> data;
  std::span<const int64_t> offsets;
};

// Picked rows of items of `unit` bytes laid end to end in `data`, and their offsets. Throws std::bad_alloc.
Flaw pick_ranges(std::span<const RangeSource> sources, size_t unit, const Picks& picks, Buffer& data,
                 Buffer& offsets);

// Sources are numbered anew: what was source i is numbers[i] in `out`, which holds all picks.
Flaw renumber(std::span<const int64_t> picks, std::span<const int64_t> numbers, int64_t* out) noexcept;

}  // namespace feedline
