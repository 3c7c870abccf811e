#include <initializer_list>
#include <random>
#include <vector>

#include "core/wire.h"
#include "tests/check.h"

namespace feedline::wire {
namespace {

using Bytes = std::vector<uint8_t>;

// The bytes live in an allocation of their own size, so that AddressSanitizer sees one read too many.
struct Reading {
  Bytes bytes;
  Cursor in;

  explicit Reading(const Bytes& given) : bytes(given.begin(), given.end()), in(bytes.data(), bytes.size()) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
};

Bytes varint(uint64_t value) {
  Bytes bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<uint8_t>(value | 0x80));
  bytes.push_back(static_cast<uint8_t>(value));
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(varints_of_every_length_read_back) {
  for (unsigned bits = 0; bits < 64; ++bits) {
    for (const uint64_t value : {uint64_t{1} << bits, (uint64_t{1} << bits) - 1, ~uint64_t{0} >> bits}) {
      Reading r(varint(value) + Bytes{0x55});
      uint64_t read = 0;
      CHECK(read_varint(r.in, read));
      CHECK_EQ(read, value);
      CHECK_EQ(r.in.left(), 1u);
    }
  }
}

TEST(a_varint_may_have_needless_zeros_up_to_ten_bytes) {
  Reading r({0x83, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00});
  uint64_t value = 0;
  CHECK(read_varint(r.in, value));
  CHECK_EQ(value, 3u);
  CHECK(r.in.done());
}

TEST(bits_beyond_the_64th_are_dropped) {
  Reading r({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f});
  uint64_t value = 0;
  CHECK(read_varint(r.in, value));
  CHECK_EQ(value, ~uint64_t{0});
}

TEST(a_varint_of_eleven_bytes_is_refused) {
  for (const uint8_t filler : {0x80, 0xff}) {
    Bytes bytes(10, filler);
    bytes.push_back(0x01);
    Reading r(bytes);
    uint64_t value = 0;
    CHECK(!read_varint(r.in, value));
    CHECK(r.in.at <= r.in.end);
  }
}

TEST(a_varint_that_is_cut_off_is_refused) {
  const Bytes whole = varint(~uint64_t{0});
  for (size_t size = 0; size < whole.size(); ++size) {
    Reading r(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
    uint64_t value = 0;
    CHECK(!read_varint(r.in, value));
    CHECK(r.in.done());
  }
}

TEST(tags_need_a_field_number_and_32_bits) {
  uint32_t value = 0;
  Reading good(varint(tag(0x1fffffff, kFixed32)));
  CHECK(read_tag(good.in, value));
  CHECK_EQ(value, 0xfffffffdu);
  Reading field_zero(varint(tag(0, kDelimited)));
  CHECK(!read_tag(field_zero.in, value));
  Reading too_wide(varint(uint64_t{1} << 32 | tag(1, kVarint)));
  CHECK(!read_tag(too_wide.in, value));
  Reading nothing(Bytes{});
  CHECK(!read_tag(nothing.in, value));
}

TEST(a_delimited_field_ends_where_it_says) {
  Reading r(varint(3) + Bytes{7, 8, 9, 10});
  Cursor inner;
  CHECK(read_delimited(r.in, inner));
  CHECK_EQ(inner.left(), 3u);
  CHECK_EQ(*inner.at, 7);
  CHECK_EQ(*r.in.at, 10);
}

TEST(a_delimited_field_longer_than_what_is_left_is_refused) {
  for (const uint64_t size : {uint64_t{4}, uint64_t{5}, uint64_t{1} << 31, uint64_t{1} << 32,
                              uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 2}) {
    Reading r(varint(size) + Bytes{1, 2, 3});
    Cursor inner;
    CHECK(!read_delimited(r.in, inner));
    CHECK(r.in.at <= r.in.end);
  }
}

TEST(fixed_fields_are_little_endian_and_whole) {
  Reading r({0x78, 0x56, 0x34, 0x12, 1, 2, 3});
  uint32_t word = 0;
  CHECK(read_fixed(r.in, word));
  CHECK_EQ(word, 0x12345678u);
  CHECK(!read_fixed(r.in, word));
  CHECK_EQ(r.in.left(), 3u);
}

TEST(skip_passes_over_each_kind_of_field) {
  struct Field {
    Type type;
    Bytes bytes;
  };
  const std::vector<Field> fields = {
      {kVarint, varint(300)},
      {kFixed64, Bytes(8, 1)},
      {kDelimited, varint(2) + Bytes{1, 2}},
      {kFixed32, Bytes(4, 1)},
      {kGroup, varint(tag(2, kVarint)) + varint(300) + varint(tag(9, kEndGroup))},
  };
  for (const Field& field : fields) {
    Reading r(field.bytes + Bytes{0x66});
    CHECK(skip_field(r.in, tag(9, field.type)));
    CHECK_EQ(r.in.left(), 1u);
    for (size_t size = 0; size < field.bytes.size(); ++size) {
      Reading cut(Bytes(field.bytes.begin(), field.bytes.begin() + static_cast<ptrdiff_t>(size)));
      CHECK(!skip_field(cut.in, tag(9, field.type)));
    }
  }
}

TEST(skip_refuses_kinds_that_do_not_exist_and_groups_that_end_unopened) {
  for (const uint32_t type : {uint32_t{kEndGroup}, 6u, 7u}) {
    Reading r(Bytes(16, 0));
    CHECK(!skip_field(r.in, 1u << 3 | type));
  }
}

TEST(groups_nest_and_must_be_closed_by_their_own_number) {
  Reading nested(varint(tag(2, kGroup)) + varint(tag(2, kEndGroup)) + varint(tag(1, kEndGroup)));
  CHECK(skip_field(nested.in, tag(1, kGroup)));
  CHECK(nested.in.done());
  Reading crossed(varint(tag(2, kGroup)) + varint(tag(1, kEndGroup)) + varint(tag(2, kEndGroup)));
  CHECK(!skip_field(crossed.in, tag(1, kGroup)));
}

TEST(a_million_open_groups_do_not_exhaust_the_stack) {
  Reading deep(Bytes(1'000'000, static_cast<uint8_t>(tag(1, kGroup))));
  CHECK(!skip_field(deep.in, tag(1, kGroup)));
  Reading shallow(Bytes(50, static_cast<uint8_t>(tag(1, kGroup))) +
                  Bytes(51, static_cast<uint8_t>(tag(1, kEndGroup))));
  CHECK(skip_field(shallow.in, tag(1, kGroup)));
  CHECK(shallow.in.done());
}

TEST(random_bytes_are_skipped_or_refused_but_never_passed) {
  std::mt19937 random(5);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes(random() % 40);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 4 == 0 ? random() : random() % 48);
    Reading r(bytes);
    uint32_t next = 0;
    while (read_tag(r.in, next) && skip_field(r.in, next)) {
    }
    if (!CHECK(r.in.at <= r.in.end)) return;
  }
}

}  // namespace
}  // namespace feedline::wire
