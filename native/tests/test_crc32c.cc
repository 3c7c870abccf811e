#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "core/crc32c.h"
#include "tests/check.h"

namespace feedline {
namespace {

constexpr CrcPath kPaths[] = {CrcPath::kPortable, CrcPath::kSse42, CrcPath::kAvx512, CrcPath::kArmv8};

std::vector<uint8_t> random_bytes(size_t size) {
  std::mt19937 random(20);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// The definition, bit by bit.
uint32_t by_definition(std::span<const uint8_t> bytes, uint32_t crc = 0) {
  crc = ~crc;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

template <class Check>
void on_each_path(Check check) {
  for (const CrcPath path : kPaths) {
    if (available(path)) check(path);
  }
}

TEST(the_portable_path_is_always_there_and_the_best_path_is_one_of_the_available) {
  CHECK(available(CrcPath::kPortable));
  CHECK(!(available(CrcPath::kSse42) && available(CrcPath::kArmv8)));
#if defined(__x86_64__)
  CHECK_EQ(available(CrcPath::kSse42), __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"));
#endif
}

TEST(every_path_gives_the_published_values) {
  struct Known {
    std::vector<uint8_t> bytes;
    uint32_t crc;
  };
  std::vector<uint8_t> up(32), down(32);
  for (uint8_t i = 0; i < 32; ++i) up[i] = i, down[31 - i] = i;
  constexpr std::string_view digits = "123456789";
  const std::vector<Known> known = {
      // RFC 3720, B.4
      {{}, 0},
      {{digits.begin(), digits.end()}, 0xe3069283},
      {std::vector<uint8_t>(32, 0x00), 0x8a9136aa},
      {std::vector<uint8_t>(32, 0xff), 0x62a8ab43},
      {up, 0x46dd794e},
      {down, 0x113fdb5c},
  };
  on_each_path([&](CrcPath path) {
    for (const Known& one : known) CHECK_EQ(crc32c_by(path, one.bytes), one.crc);
  });
}

TEST(every_path_agrees_at_every_size_and_alignment) {
  constexpr size_t kSizes = 5001;
  const std::vector<uint8_t> bytes = random_bytes(kSizes + 16);
  for (size_t alignment = 0; alignment < 16; ++alignment) {
    uint32_t expected = 0;
    for (size_t size = 0; size < kSizes; ++size) {
      const std::span<const uint8_t> part(bytes.data() + alignment, size);
      if (size > 0) expected = by_definition(part.last(1), expected);
      if (!CHECK_EQ(crc32c(part), expected)) return;
      on_each_path([&](CrcPath path) { CHECK_EQ(crc32c_by(path, part), expected); });
    }
  }
}

TEST(every_path_agrees_on_sizes_around_whole_blocks_of_streams) {
  const std::vector<uint8_t> bytes = random_bytes(3 * 24 * 1024 + 200);
  on_each_path([&](CrcPath path) {
    for (const size_t block : {24 * 16, 24 * 64, 24 * 256, 24 * 1024}) {
      for (size_t blocks = 1; blocks <= 3; ++blocks) {
        for (size_t size = block * blocks - 100; size < block * blocks + 200; size += 7) {
          const std::span<const uint8_t> part(bytes.data(), size);
          if (!CHECK_EQ(crc32c_by(path, part), by_definition(part))) return;
        }
      }
    }
  });
}

TEST(a_checksum_goes_on_from_any_split_point) {
  const std::vector<uint8_t> bytes = random_bytes(1200);
  const uint32_t whole = by_definition(bytes);
  const std::span<const uint8_t> all(bytes);
  on_each_path([&](CrcPath path) {
    for (size_t split = 0; split <= all.size(); ++split) {
      const uint32_t head = crc32c_by(path, all.first(split));
      if (!CHECK_EQ(crc32c_by(path, all.subspan(split), head), whole)) return;
    }
  });
}

TEST(reads_stay_inside_the_bytes) {
  // Each in its own allocation, whose ends AddressSanitizer guards.
  for (size_t size = 0; size < 1400; size = size == 300 ? 1000 : size + 1) {
    const std::vector<uint8_t> bytes = random_bytes(size);
    on_each_path([&](CrcPath path) { CHECK_EQ(crc32c_by(path, bytes), by_definition(bytes)); });
  }
}

TEST(masked_checksums_are_those_of_a_tfrecord) {
  static_assert(mask_crc(0) == 0xa282ead8);
  // The header of a TFRecord that holds a record of 0 bytes, and that record's footer.
  CHECK_EQ(masked_crc32c_u64(0), 0x07980329u);
  CHECK_EQ(masked_crc32c({}), 0xa282ead8u);
}

TEST(the_checksum_of_a_length_is_that_of_its_eight_bytes) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t word = random() >> i % 64;
    uint8_t bytes[8];
    std::memcpy(bytes, &word, 8);
    CHECK_EQ(masked_crc32c_u64(word), masked_crc32c(bytes));
    CHECK_EQ(crc_detail::portable_step(~0u, word), ~by_definition(bytes));
  }
}

}  // namespace
}  // namespace feedline
