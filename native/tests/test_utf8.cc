#include <array>
#include <cstdint>
#include <string>

#include "core/utf8.h"
#include "tests/check.h"

namespace feedline {
namespace {

// The other way round: what UTF-8 makes of a number is valid, and nothing else is.
size_t encode(uint32_t code, char* out) {
  const auto put = [&out](uint32_t byte) { *out++ = static_cast<char>(byte); };
  if (code < 0x80) return put(code), 1;
  if (code < 0x800) return put(0xc0 | code >> 6), put(0x80 | (code & 0x3f)), 2;
  if (code < 0x10000) {
    return put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f)), 3;
  }
  return put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)),
         put(0x80 | (code & 0x3f)), 4;
}

TEST(every_code_point_is_valid_except_surrogates_and_those_past_the_last) {
  for (uint32_t code = 0; code < 0x120000; ++code) {
    std::array<char, 4> bytes{};
    const size_t size = encode(code, bytes.data());
    const bool valid = (code < 0xd800 || code > 0xdfff) && code <= 0x10ffff;
    if (!CHECK_EQ(is_utf8({bytes.data(), size}), valid)) break;
  }
}

TEST(as_many_sequences_are_valid_as_there_are_code_points_that_long) {
  size_t one = 0, two = 0, three = 0;
  std::array<char, 3> bytes{};
  for (uint32_t number = 0; number < 1u << 24; ++number) {
    for (size_t i = 0; i < 3; ++i) bytes[i] = static_cast<char>(number >> 8 * i);
    if (number < 1u << 8) one += is_utf8({bytes.data(), 1});
    if (number < 1u << 16) two += is_utf8({bytes.data(), 2});
    // The first is no code point of its own, or two of the sequence could be valid apart.
    if ((number & 0xff) >= 0xe0) three += is_utf8({bytes.data(), 3});
  }
  CHECK_EQ(one, 0x80);
  CHECK_EQ(two, 0x80 * 0x80 + (0x800 - 0x80));
  CHECK_EQ(three, 0x10000 - 0x800 - (0xe000 - 0xd800));
}

TEST(four_bytes_are_valid_only_within_the_ranges) {
  size_t valid = 0;
  for (uint32_t lead = 0xf0; lead < 0x100; ++lead) {
    for (uint32_t second = 0; second < 0x100; ++second) {
      for (uint32_t last : {0x7fu, 0x80u, 0xbfu, 0xc0u}) {
        const std::array<char, 4> bytes{static_cast<char>(lead), static_cast<char>(second),
                                        static_cast<char>(0x80), static_cast<char>(last)};
        valid += is_utf8({bytes.data(), 4});
      }
    }
  }
  CHECK_EQ(valid, 2 * ((0x110000 - 0x10000) >> 12));
}

TEST(a_sequence_that_is_cut_off_is_not_valid) {
  const std::string euro = "\xe2\x82\xac", clef = "\xf0\x9d\x84\x9e";
  for (const std::string& whole : {euro, clef}) {
    for (size_t size = 1; size < whole.size(); ++size) CHECK(!is_utf8("x" + whole.substr(0, size)));
    CHECK(is_utf8("x" + whole + "y"));
    CHECK(!is_utf8(whole.substr(1)));
  }
  CHECK(is_utf8(""));
  CHECK(is_utf8(std::string_view("\0", 1)));
}

}  // namespace
}  // namespace feedline
