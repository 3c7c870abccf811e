#include "core/shuffle.h"

namespace feedline {

namespace {

// SplitMix64 (Steele, Lea, Flood 2014): a counter, well mixed.
uint64_t random_at(uint64_t key, uint64_t n) noexcept {
  uint64_t z = key + (n + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// 0 to bound - 1. The bias, at most bound / 2^32 of a part, is nothing that could be seen.
size_t below(uint64_t random, uint64_t bound) noexcept {
  if (bound >> 32 == 0) return static_cast<size_t>(((random >> 32) * bound) >> 32);
  return static_cast<size_t>(random % bound);
}

}  // namespace

size_t draw(uint64_t key, ShuffleBuffer& shared, std::span<int64_t> out) noexcept {
  // A copy that stays in registers: a slot could be a part of what it is called with, for all the compiler
  // knows.
  ShuffleBuffer buffer = shared;
  size_t drawn = 0;
  while (drawn < out.size() && buffer.filled > 0) {
    int64_t& slot = buffer.slots[below(random_at(key, buffer.draws), static_cast<uint64_t>(buffer.filled))];
    out[drawn++] = slot;
    ++buffer.draws;
    if (buffer.next < buffer.end) {
      slot = buffer.next++;
    } else {
      slot = buffer.slots[static_cast<size_t>(--buffer.filled)];
    }
  }
  shared = buffer;
  return drawn;
}

}  // namespace feedline
