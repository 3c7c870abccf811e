#include "core/shuffle.h"

#include <algorithm>
#include <array>

namespace feedline {

namespace {

// Draws before their values are looked up: few enough for the numbers to stay in the innermost cache.
constexpr size_t kChunk = 512;

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

Flaw draw_values(uint64_t key, ShuffleBuffer& buffer, std::span<const int64_t> values, std::span<int64_t> out,
                 size_t& drawn) noexcept {
  std::array<int64_t, kChunk> numbers;
  for (drawn = 0; drawn < out.size();) {
    const size_t count = draw(key, buffer, std::span(numbers).first(std::min(kChunk, out.size() - drawn)));
    if (count == 0) break;
    for (size_t i = 0; i < count; ++i) {
      const auto number = static_cast<uint64_t>(numbers[i]);
      if (number >= values.size()) return {Flaw::Kind::kIndex, static_cast<int64_t>(drawn + i), numbers[i]};
      out[drawn + i] = values[number];
    }
    drawn += count;
  }
  return {};
}

}  // namespace feedline
