// CRC32C (Castagnoli), the checksum of TFRecords, by the processor's instruction where it has one.
//
// All paths give the same values; the best one is chosen at run time, so one build serves every machine.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace feedline {

enum class CrcPath { kPortable, kSse42, kAvx512, kArmv8 };

// Can this build on this machine use the path? kSse42 also asks for PCLMULQDQ, which came a year after it,
// and kAvx512 for VPCLMULQDQ.
bool available(CrcPath path) noexcept;

// `crc` is the checksum of what came before `bytes`: crc32c(b, crc32c(a)) is that of a and b together.
uint32_t crc32c(std::span<const uint8_t> bytes, uint32_t crc = 0) noexcept;

// The same by one given path, which must be available.
uint32_t crc32c_by(CrcPath path, std::span<const uint8_t> bytes, uint32_t crc = 0) noexcept;

// TFRecords hold checksums masked, so that a checksum of bytes that hold checksums is not degenerate.
constexpr uint32_t mask_crc(uint32_t crc) noexcept { return std::rotr(crc, 15) + 0xa282ead8u; }

inline uint32_t masked_crc32c(std::span<const uint8_t> bytes) noexcept { return mask_crc(crc32c(bytes)); }

namespace crc_detail {

// False until the core's statics are initialised; whoever is that early gets the portable path.
extern const bool kHardware;

uint32_t portable_step(uint32_t state, uint64_t word) noexcept;

// Takes in the eight bytes of `word`. Assembler rather than the intrinsics: those inline only into functions
// that are compiled for the instruction set, and callers in other files are not.
inline uint32_t hardware_step(uint32_t state, uint64_t word) noexcept {
#if defined(__x86_64__)
  uint64_t wide = state;
  asm("crc32q %1, %0" : "+r"(wide) : "r"(word));
  return static_cast<uint32_t>(wide);
#elif defined(__aarch64__)
  asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(state) : "r"(word));
  return state;
#else
  return portable_step(state, word);
#endif
}

}  // namespace crc_detail

// The masked checksum of the eight bytes of `word` as they lie in memory: a record's length header.
inline uint32_t masked_crc32c_u64(uint64_t word) noexcept {
  const uint32_t state =
      crc_detail::kHardware ? crc_detail::hardware_step(~0u, word) : crc_detail::portable_step(~0u, word);
  return mask_crc(~state);
}

}  // namespace feedline
