// A CRC is the remainder of a polynomial over GF(2), so the CRC of a long stretch is a sum of the CRCs of its
// parts, each multiplied by x to the number of bits that follow it. The instruction takes 3 cycles but one
// can start in each: so three parts are run side by side, and then put together. Polynomials are
// bit-reflected: the highest bit is the coefficient of x^0.
//
// Where there are carry-less products of 512 bits, what comes first is multiplied so that it can be added to
// what comes later, 256 bytes at a time, until 16 bytes with the same remainder are left.
#include "core/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace feedline {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr uint32_t kPolynomial = 0x82f63b78;
constexpr uint32_t kOne = 0x80000000;

constexpr uint32_t times_x(uint32_t a) { return a >> 1 ^ ((a & 1) != 0 ? kPolynomial : 0); }

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1, b = times_x(b)) product ^= (a & kOne) != 0 ? b : 0;
  return product;
}

constexpr uint32_t x_to_the(unsigned power) {
  uint32_t result = kOne;
  for (uint32_t square = kOne >> 1; power != 0; power >>= 1, square = multiply(square, square)) {
    if ((power & 1) != 0) result = multiply(result, square);
  }
  return result;
}

using ByteTable = std::array<uint32_t, 256>;

// [v] is the polynomial whose lowest byte is v, moved on by `bits` bits.
constexpr ByteTable byte_table(unsigned bits) {
  const uint32_t factor = x_to_the(bits);
  ByteTable table{};
  for (uint32_t v = 0; v < 256; ++v) table[v] = multiply(v, factor);
  return table;
}

// [i] is for a byte that i bytes of the same word follow.
constexpr std::array<ByteTable, 8> kSlices = {byte_table(8),  byte_table(16), byte_table(24), byte_table(32),
                                              byte_table(40), byte_table(48), byte_table(56), byte_table(64)};

struct Portable {
  static uint32_t step(uint32_t state, uint64_t word) noexcept {
    word ^= state;
    uint32_t result = 0;
    for (size_t i = 0; i < 8; ++i) result ^= kSlices[7 - i][word >> 8 * i & 0xff];
    return result;
  }
};

struct Hardware {
  static uint32_t step(uint32_t state, uint64_t word) noexcept {
    return crc_detail::hardware_step(state, word);
  }
};

inline uint64_t load(const uint8_t* at) noexcept {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

template <class Path>
inline uint32_t words(const uint8_t*& at, size_t count, uint32_t state) noexcept {
  for (; count != 0; --count, at += 8) state = Path::step(state, load(at));
  return state;
}

// The last `size` < 8 bytes, the low ones of `word`. Zeros in front of a message do not change a state of 0:
// so they fill the word up, and the state is added to the bytes that it would have met. What of it is longer
// than they are is only moved on.
template <class Path>
inline uint32_t tail(uint64_t word, size_t size, uint32_t state) noexcept {
  if (size == 0) return state;
  const uint64_t moved = static_cast<uint64_t>(state) >> 8 * size;
  return Path::step(0, (word ^ state) << (64 - 8 * size)) ^ static_cast<uint32_t>(moved);
}

// Fewer bytes than it pays to part in three.
template <class Path>
inline uint32_t one_stream(const uint8_t* at, size_t size, uint32_t state) noexcept {
  uint64_t last = 0;
  if (size < 8) {
    for (size_t i = 0; i < size; ++i) last |= static_cast<uint64_t>(at[i]) << 8 * i;
    return tail<Path>(last, size, state);
  }
  const size_t odd = size % 8;
  if (odd != 0) last = load(at + size - 8) >> (64 - 8 * odd);
  state = words<Path>(at, size / 8, state);
  return tail<Path>(last, odd, state);
}

struct Three {
  uint32_t first, second, third;
};

// `count` words in each of three streams that lie one after the other from `at`.
inline Three three_streams(const uint8_t* at, size_t count, uint32_t state) noexcept {
  const uint8_t* const second = at + 8 * count;
  const uint8_t* const third = second + 8 * count;
  Three s{state, 0, 0};
#pragma GCC unroll 4  // leaves room in the pipeline when a second hardware thread shares the core
  for (size_t i = 0; i < 8 * count; i += 8) {
    s.first = Hardware::step(s.first, load(at + i));
    s.second = Hardware::step(s.second, load(second + i));
    s.third = Hardware::step(s.third, load(third + i));
  }
  return s;
}

#if defined(__x86_64__)

// Streams have any number of words up to this one, so most payloads are parted once, without a remainder. The
// three of a block fit into the first-level cache together.
constexpr size_t kMaxWords = 1024;
constexpr size_t kMinSize = 96;

// [n]: what a carry-less product must be made with, for a CRC step on it to move a state on by n words: the
// step moves it by 32 bits itself, and the product of reflected numbers by one.
constexpr std::array<uint32_t, 2 * kMaxWords + 1> kMove = [] {
  std::array<uint32_t, 2 * kMaxWords + 1> table{};
  const uint32_t word = x_to_the(64);
  table[1] = x_to_the(64 - 33);
  for (size_t n = 2; n < table.size(); ++n) table[n] = multiply(table[n - 1], word);
  return table;
}();

__attribute__((target("pclmul"))) inline __m128i product(uint32_t a, uint32_t b) noexcept {
  return _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)), _mm_cvtsi32_si128(static_cast<int>(b)),
                              0);
}

__attribute__((target("pclmul"))) uint32_t hardware(const uint8_t* at, size_t size, uint32_t state) noexcept {
  while (size >= kMinSize) {
    const size_t count = size / 24 < kMaxWords ? size / 24 : kMaxWords;
    const Three s = three_streams(at, count, state);
    const __m128i moved = _mm_xor_si128(product(s.first, kMove[2 * count]), product(s.second, kMove[count]));
    state = Hardware::step(0, static_cast<uint64_t>(_mm_cvtsi128_si64(moved))) ^ s.third;
    at += 24 * count;
    size -= 24 * count;
  }
  return one_stream<Hardware>(at, size, state);
}

bool detect() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}
constexpr CrcPath kHardwarePath = CrcPath::kSse42;

bool detect_wide() noexcept {
  return detect() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("vpclmulqdq");
}

// Of fewer bytes, putting 256 of them together costs more than it spares.
constexpr size_t kMinWide = 1024;

#define FEEDLINE_WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul")))

// What the two halves of 128 bits are multiplied by to be moved on by `bits`. A half of 64 bits has x^0 at
// its highest bit, so a factor of 32 lies in the upper ones. The product of reflected numbers moves by one
// itself, and the first half is followed by the other.
struct Factors {
  int64_t first, second;
};
constexpr Factors factors(unsigned bits) {
  return {static_cast<int64_t>(uint64_t{x_to_the(bits + 63)} << 32),
          static_cast<int64_t>(uint64_t{x_to_the(bits - 1)} << 32)};
}

// The 16-byte lanes of `moved` by the factors, added to `to`.
FEEDLINE_WIDE inline __m512i fold(__m512i moved, __m512i by, __m512i to) noexcept {
  constexpr int kAddAll = 0x96;  // of three
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(moved, by, 0x00),
                                   _mm512_clmulepi64_epi128(moved, by, 0x11), to, kAddAll);
}

FEEDLINE_WIDE inline __m128i fold(__m128i moved, __m128i by, __m128i to) noexcept {
  return _mm_xor_si128(
      _mm_xor_si128(_mm_clmulepi64_si128(moved, by, 0x00), _mm_clmulepi64_si128(moved, by, 0x11)), to);
}

FEEDLINE_WIDE inline __m512i lanes(const uint8_t* from) noexcept { return _mm512_loadu_si512(from); }

FEEDLINE_WIDE inline __m512i for_lanes(Factors by) noexcept {
  return _mm512_broadcast_i32x4(_mm_set_epi64x(by.second, by.first));
}

// At least 256 bytes; goes on from `at` as far as it came.
FEEDLINE_WIDE inline uint32_t folded(const uint8_t*& at, size_t& size, uint32_t state) noexcept {
  constexpr size_t kLane = 64, kBlock = 4 * kLane;
  constexpr Factors kFar = factors(8 * kBlock), kNear = factors(8 * kLane), kNext = factors(128);
  const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i a = _mm512_xor_si512(lanes(at), start), b = lanes(at + kLane);
  __m512i c = lanes(at + 2 * kLane), d = lanes(at + 3 * kLane);
  const __m512i far = for_lanes(kFar);
  for (at += kBlock, size -= kBlock; size >= kBlock; at += kBlock, size -= kBlock) {
    a = fold(a, far, lanes(at));
    b = fold(b, far, lanes(at + kLane));
    c = fold(c, far, lanes(at + 2 * kLane));
    d = fold(d, far, lanes(at + 3 * kLane));
  }
  const __m512i near = for_lanes(kNear);
  a = fold(fold(fold(a, near, b), near, c), near, d);
  const __m128i next = _mm_set_epi64x(kNext.second, kNext.first);
  __m128i last = _mm512_castsi512_si128(a);
  last = fold(last, next, _mm512_extracti32x4_epi32(a, 1));
  last = fold(last, next, _mm512_extracti32x4_epi32(a, 2));
  last = fold(last, next, _mm512_extracti32x4_epi32(a, 3));
  state = Hardware::step(0, static_cast<uint64_t>(_mm_cvtsi128_si64(last)));
  return Hardware::step(state, static_cast<uint64_t>(_mm_extract_epi64(last, 1)));
}

uint32_t wide(const uint8_t* at, size_t size, uint32_t state) noexcept {
  if (size >= kMinWide) state = folded(at, size, state);
  return hardware(at, size, state);
}

#elif defined(__aarch64__)

// Moves a state on by a fixed number of words, by lookup, because not every processor that has the CRC
// instruction also multiplies without carries.
template <size_t kWords>
struct Move {
  static constexpr std::array<ByteTable, 4> kTables = [] {
    std::array<ByteTable, 4> tables{};
    for (unsigned byte = 0; byte < 4; ++byte) {
      const uint32_t factor = x_to_the(64 * kWords);
      for (uint32_t v = 0; v < 256; ++v) tables[byte][v] = multiply(v << 8 * byte, factor);
    }
    return tables;
  }();
  static uint32_t on(uint32_t state) noexcept {
    return kTables[0][state & 0xff] ^ kTables[1][state >> 8 & 0xff] ^ kTables[2][state >> 16 & 0xff] ^
           kTables[3][state >> 24];
  }
};

template <size_t kWords>
inline uint32_t blocks(const uint8_t*& at, size_t& size, uint32_t state) noexcept {
  for (; size >= 24 * kWords; at += 24 * kWords, size -= 24 * kWords) {
    const Three s = three_streams(at, kWords, state);
    state = Move<kWords>::on(Move<kWords>::on(s.first) ^ s.second) ^ s.third;
  }
  return state;
}

uint32_t hardware(const uint8_t* at, size_t size, uint32_t state) noexcept {
  state = blocks<256>(at, size, state);
  state = blocks<64>(at, size, state);
  state = blocks<16>(at, size, state);
  return one_stream<Hardware>(at, size, state);
}

bool detect() noexcept { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
constexpr CrcPath kHardwarePath = CrcPath::kArmv8;

bool detect_wide() noexcept { return false; }
uint32_t wide(const uint8_t* at, size_t size, uint32_t state) noexcept { return hardware(at, size, state); }

#else

uint32_t hardware(const uint8_t* at, size_t size, uint32_t state) noexcept {
  return one_stream<Portable>(at, size, state);
}
bool detect() noexcept { return false; }
constexpr CrcPath kHardwarePath = CrcPath::kPortable;

bool detect_wide() noexcept { return false; }
uint32_t wide(const uint8_t* at, size_t size, uint32_t state) noexcept { return hardware(at, size, state); }

#endif

const bool kWide = detect_wide();

}  // namespace

namespace crc_detail {

const bool kHardware = detect();

uint32_t portable_step(uint32_t state, uint64_t word) noexcept { return Portable::step(state, word); }

}  // namespace crc_detail

bool available(CrcPath path) noexcept {
  return path == CrcPath::kPortable || (path == CrcPath::kAvx512 && kWide) ||
         (path == kHardwarePath && crc_detail::kHardware);
}

uint32_t crc32c_by(CrcPath path, std::span<const uint8_t> bytes, uint32_t crc) noexcept {
  const auto by = path == CrcPath::kPortable ? one_stream<Portable>
                  : path == CrcPath::kAvx512 ? wide
                                             : hardware;
  return ~by(bytes.data(), bytes.size(), ~crc);
}

uint32_t crc32c(std::span<const uint8_t> bytes, uint32_t crc) noexcept {
  return crc32c_by(kWide                   ? CrcPath::kAvx512
                   : crc_detail::kHardware ? kHardwarePath
                                           : CrcPath::kPortable,
                   bytes, crc);
}

}  // namespace feedline
