#include <string>

#include "core/framing.h"
#include "core/header_walk.h"
#include "tests/check.h"
#include "tests/samples.h"

namespace feedline {
namespace {

using namespace samples;

const auto kGoOn = [](uint64_t) { return true; };

WalkedFile walked(const Bytes& bytes) {
  const File file(bytes);
  return walk_headers({file.path()}, kGoOn)[0];
}

TEST(offsets_are_those_of_records_of_any_size) {
  Bytes bytes;
  std::vector<uint64_t> offsets;
  for (const size_t size : {0u, 1u, 300'000u, 262'132u, 5u, 262'144u, 1'000'000u, 70'000u}) {
    offsets.push_back(bytes.size());
    bytes += framed(Bytes(size, 7));
  }
  offsets.push_back(bytes.size());
  const WalkedFile found = walked(bytes);
  CHECK(found.sound);
  CHECK(found.offsets == offsets);
  CHECK_EQ(found.identity.size, bytes.size());
}

TEST(an_empty_file_has_no_records) {
  const WalkedFile found = walked({});
  CHECK(found.sound);
  CHECK(found.offsets == std::vector<uint64_t>{0});
}

TEST(a_file_cut_at_any_byte_or_with_any_bit_of_a_header_flipped_is_not_sound) {
  const Bytes one = framed(text("one")), bytes = one + framed(text("two"));
  for (size_t size = 1; size < bytes.size(); ++size)
    CHECK_EQ(walked(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size))).sound,
             size == one.size());
  for (size_t bit = 0; bit < 8 * kHeaderSize; ++bit) {
    Bytes flipped = bytes;
    flipped[one.size() + bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    CHECK(!walked(flipped).sound);
  }
}

TEST(a_length_beyond_all_files_is_not_believed) {
  for (const uint64_t length : {UINT64_MAX, UINT64_MAX - kFraming + 1, uint64_t{1} << 63, uint64_t{100}}) {
    Bytes header(kFraming + 8);
    const uint32_t crc = masked_crc32c_u64(length);
    std::memcpy(header.data(), &length, 8);
    std::memcpy(header.data() + 8, &crc, 4);
    CHECK(!walked(header).sound);
  }
}

TEST(what_is_no_file_is_not_sound_and_holds_up_no_other) {
  const File good(framed(text("x")));
  const auto found = walk_headers({"/", "/dev/null", "/no/such/file", good.path()}, kGoOn);
  CHECK(!found[0].sound && !found[1].sound && !found[2].sound && found[3].sound);
  CHECK(walk_headers({}, kGoOn).empty());
}

TEST(more_files_than_threads_come_in_their_order) {
  std::vector<File> files;
  std::vector<std::string> paths;
  for (size_t i = 0; i < 200; ++i) {
    files.emplace_back(framed(Bytes(i)));
    paths.push_back(files.back().path());
  }
  const auto found = walk_headers(paths, kGoOn);
  for (size_t i = 0; i < 200; ++i) CHECK_EQ(found[i].identity.size, i + kFraming);
}

}  // namespace
}  // namespace feedline
