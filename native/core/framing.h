// TFRecord framing: length (8 bytes) | masked CRC32C of the length (4) | payload | masked CRC32C of the
// payload (4).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/crc32c.h"

namespace feedline {

static_assert(std::endian::native == std::endian::little, "TFRecords are little-endian, and read in place");

inline constexpr size_t kHeaderSize = 12;
inline constexpr size_t kFooterSize = 4;
inline constexpr size_t kFraming = kHeaderSize + kFooterSize;

template <class T>
T load(const uint8_t* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

inline uint64_t header_length(const uint8_t* header) noexcept { return load<uint64_t>(header); }

inline bool header_holds(const uint8_t* header) noexcept {
  return masked_crc32c_u64(header_length(header)) == load<uint32_t>(header + 8);
}

// Writes the header of `payload` at `header` and its footer at `footer`.
inline void write_frame_around(std::span<const uint8_t> payload, uint8_t* header, uint8_t* footer) noexcept {
  const uint64_t length = payload.size();
  const uint32_t header_crc = masked_crc32c_u64(length);
  const uint32_t payload_crc = masked_crc32c(payload);
  std::memcpy(header, &length, 8);
  std::memcpy(header + 8, &header_crc, 4);
  std::memcpy(footer, &payload_crc, 4);
}

// Writes `payload` with its header and footer at `out`; the end of it.
inline uint8_t* write_frame(std::span<const uint8_t> payload, uint8_t* out) noexcept {
  uint8_t* const footer = out + kHeaderSize + payload.size();
  write_frame_around(payload, out, footer);
  if (!payload.empty()) std::memcpy(out + kHeaderSize, payload.data(), payload.size());
  return footer + kFooterSize;
}

}  // namespace feedline
