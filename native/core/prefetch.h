// Asking for memory before it is needed: rows at random miss every cache, and the processor cannot guess
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace feedline {

// Into the second-level cache, which can wait for more of memory at a time than the first. The processor
// fetches what is beyond kMost itself as it streams.
inline void prefetch(const uint8_t* row, size_t bytes) noexcept {
  constexpr size_t kLine = 64, kMost = 4096;
  asm volatile("");  // or GCC takes this for a function without any effect, and drops its calls
  const uint8_t* const end = row + std::min(bytes, kMost);
  row -= reinterpret_cast<uintptr_t>(row) % kLine;  // where its first line begins
  for (; row < end; row += kLine) __builtin_prefetch(row, 0, 2);
}

// How many rows before it is used a row of so many bytes is asked for: the smaller they are, the more of them
// it takes to keep memory busy.
constexpr size_t rows_ahead(size_t bytes) noexcept {
  constexpr size_t kBytes = 8192, kFewest = 16, kMost = 64;
  return std::clamp(kBytes / std::max<size_t>(bytes, 1), kFewest, kMost);
}

// Calls use(i) for each of the rows, and ask(i) so many rows before.
template <class Ask, class Use>
void each_asked_for(size_t rows, size_t ahead, Ask&& ask, Use&& use) {
  for (size_t i = 0; i < std::min(ahead, rows); ++i) ask(i);
  for (size_t i = 0; i < rows; ++i) {
    if (i + ahead < rows) ask(i + ahead);
    use(i);
  }
}

}  // namespace feedline
