// Asking for memory before it is needed: rows at random miss every cache, and the processor cannot guess
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace feedline {

inline constexpr size_t kAhead = 8;  // rows; a few are enough to hide the way to memory

// A small row goes into the first-level cache. Large ones would throw each other out of it: they go into the
// second, and the processor fetches what is beyond kMost itself as it streams.
inline void prefetch(const uint8_t* row, size_t bytes) noexcept {
  constexpr size_t kLine = 64, kSmall = 512, kMost = 4096;
  if (bytes <= kSmall) {
    for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at);
  } else {
    for (size_t at = 0; at < std::min(bytes, kMost); at += kLine) __builtin_prefetch(row + at, 0, 1);
  }
}

}  // namespace feedline
