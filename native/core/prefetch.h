// Asking for memory before it is needed: rows at random miss every cache, and the processor cannot guess
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace feedline {

inline constexpr size_t kAhead = 8;  // rows; a few are enough to hide the way to memory

// Into the second-level cache: whole rows would throw each other out of the first.
inline void prefetch(const uint8_t* row, size_t bytes) noexcept {
  constexpr size_t kLine = 64;
  constexpr size_t kMost = 4096;  // the rest the processor fetches itself as it streams
  for (size_t at = 0; at < std::min(bytes, kMost); at += kLine) __builtin_prefetch(row + at, 0, 1);
}

}  // namespace feedline
