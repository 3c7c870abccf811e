// Copying rows into a block that is larger than the caches: stores that go past them spare the processor the
// reading of what is about to be overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace feedline {

// Blocks of fewer bytes are likely to be read while they are in the cache.
inline constexpr size_t kStreamBytes = size_t{1} << 20;

#ifdef __SSE2__

inline void stream_copy(uint8_t* to, const uint8_t* from, size_t bytes) noexcept {
  constexpr size_t kLine = 64;
  if (reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) != 0 || bytes % kLine != 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += kLine) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + at);
    auto* const target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
}

// Before other threads are told of what was copied.
inline void end_stream() noexcept { _mm_sfence(); }

#else

inline void stream_copy(uint8_t* to, const uint8_t* from, size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
}
inline void end_stream() noexcept {}

#endif

}  // namespace feedline
