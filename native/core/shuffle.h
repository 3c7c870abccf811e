// Drawing from a buffer of numbers at random, each number drawn being replaced by the next that comes.
//
// The n-th draw depends on the key, on n and on how full the buffer is, and on nothing else: so a shuffle can
// be gone through again, up to any draw, from its key alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/gather.h"

namespace feedline {

struct ShuffleBuffer {
  std::span<int64_t> slots;  // the first `filled` are in use; the caller fills them before the first draw
  int64_t filled = 0;
  int64_t next = 0;    // the number that comes next
  int64_t end = 0;     // no number from here on is there
  uint64_t draws = 0;  // done so far
};

// Draws until `out` is full or the buffer is empty; says how many. At `end` the buffer shrinks.
size_t draw(uint64_t key, ShuffleBuffer& buffer, std::span<int64_t> out) noexcept;

// The same with values[number] in place of each number. The first number that has no value is a flaw, kIndex.
Flaw draw_values(uint64_t key, ShuffleBuffer& buffer, std::span<const int64_t> values, std::span<int64_t> out,
                 size_t& drawn) noexcept;

}  // namespace feedline
