#include <string>
#include <vector>

#include "check.h"
#include "core/encode.h"
#include "samples.h"

using namespace feedline;

namespace {

std::string text(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

EncodeColumn ints(const char* key, const std::vector<int64_t>& values, size_t per_row) {
  EncodeColumn column;
  column.key = key;
  column.kind = ValueKind::kInt64;
  column.ints = values.data();
  column.values = values.size();
  column.per_row = per_row;
  return column;
}

EncodeColumn strings(const char* key, std::string_view bytes, const std::vector<int64_t>& offsets) {
  EncodeColumn column;
  column.key = key;
  column.kind = ValueKind::kBytes;
  column.bytes = bytes;
  column.byte_offsets = offsets.data();
  column.values = offsets.size() - 1;
  column.per_row = 1;
  return column;
}

// The only feature is "k", of one int: the bytes before the value are known.
std::string encoded_int(int64_t value) {
  const std::vector<int64_t> values{value};
  const EncodeColumn column = ints("k", values, 1);
  Buffer records, offsets;
  CHECK(!encode_examples({&column, 1}, 1, records, offsets));
  return text(records);
}

std::string plain_varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

}  // namespace

TEST(an_int_is_written_as_protobuf_does) {
  CHECK_EQ(encoded_int(7), std::string("\x0a\x0c\x0a\x0a\x0a\x01k\x12\x05\x1a\x03\x0a\x01\x07", 14));
}

TEST(varints_of_every_length_are_the_same_as_those_of_a_plain_loop) {
  std::vector<int64_t> values;
  for (int bits = 0; bits < 64; ++bits) {
    const uint64_t power = uint64_t{1} << bits;
    for (uint64_t value : {power - 1, power, power + 1, ~power})
      values.push_back(static_cast<int64_t>(value));
  }
  std::string all;
  for (int64_t value : values) {
    const std::string varint = plain_varint(static_cast<uint64_t>(value));
    const std::string record = encoded_int(value);
    if (!CHECK_EQ(record.substr(record.size() - varint.size()), varint)) break;
    all += varint;
  }
  // All in one row: each is overwritten by the next from its end on.
  const EncodeColumn column = ints("k", values, values.size());
  Buffer records, offsets;
  CHECK(!encode_examples({&column, 1}, 1, records, offsets));
  const std::string record = text(records);
  CHECK_EQ(record.substr(record.size() - all.size()), all);
}

TEST(rows_lie_back_to_back_between_their_offsets) {
  const std::vector<int64_t> values{1, 1000, 3};
  const std::vector<int64_t> ends{0, 1, 1, 4};
  const std::vector<EncodeColumn> columns{ints("k", values, 1), strings("s", "abbb", ends)};
  Buffer records, offsets;
  CHECK(!encode_examples(columns, 3, records, offsets));
  CHECK_EQ(offsets.size(), 4 * sizeof(uint64_t));
  CHECK_EQ(offsets.as<uint64_t>()[0], 0u);
  CHECK_EQ(offsets.as<uint64_t>()[3], records.size());
  for (size_t row = 0; row < 3; ++row) {
    const std::vector<int64_t> one{values[row]};
    const std::vector<int64_t> end{ends[row], ends[row + 1]};
    const std::vector<EncodeColumn> single{ints("k", one, 1), strings("s", "abbb", end)};
    Buffer record, whole;
    CHECK(!encode_examples(single, 1, record, whole));
    const uint64_t begin = offsets.as<uint64_t>()[row];
    CHECK_EQ(text(records).substr(begin, offsets.as<uint64_t>()[row + 1] - begin), text(record));
  }
}

TEST(a_ragged_column_begins_where_its_first_offset_says) {
  const std::vector<int64_t> values{9, 1, 2, 9};
  const std::vector<int64_t> offsets{1, 3, 3};
  EncodeColumn column = ints("k", values, 0);
  column.row_offsets = offsets.data();
  Buffer records, ends;
  CHECK(!encode_examples({&column, 1}, 2, records, ends));
  const std::string two("\x0a\x0d\x0a\x0b\x0a\x01k\x12\x06\x1a\x04\x0a\x02\x01\x02", 15);
  const std::string none("\x0a\x09\x0a\x07\x0a\x01k\x12\x02\x1a\x00", 11);
  CHECK_EQ(text(records), two + none);
}

TEST(no_columns_are_empty_examples) {
  Buffer records, offsets;
  CHECK(!encode_examples({}, 2, records, offsets));
  CHECK_EQ(records.size(), 0u);
  CHECK_EQ(offsets.as<uint64_t>()[2], 0u);
}

TEST(offsets_that_leave_the_column_are_refused) {
  const std::vector<int64_t> values{1, 2, 3};
  for (const std::vector<int64_t>& offsets :
       {std::vector<int64_t>{0, 4}, {-1, 2}, {2, 1}, {0, INT64_MAX}, {INT64_MIN, 0}}) {
    EncodeColumn column = ints("k", values, 0);
    column.row_offsets = offsets.data();
    Buffer records, ends;
    const Fault fault = encode_examples({&column, 1}, 1, records, ends);
    CHECK_EQ(fault.kind, FaultKind::kSchema);
    CHECK_EQ(fault.feature, "k");
    CHECK_EQ(records.size(), 0u);

    const EncodeColumn text_column = strings("s", "abc", offsets);
    CHECK_EQ(encode_examples({&text_column, 1}, 1, records, ends).kind, FaultKind::kSchema);
  }
}

TEST(a_dense_column_with_too_few_values_is_refused) {
  const std::vector<int64_t> values{1, 2, 3};
  Buffer records, offsets;
  const EncodeColumn column = ints("k", values, 2);
  CHECK_EQ(encode_examples({&column, 1}, 2, records, offsets).kind, FaultKind::kSchema);
  const EncodeColumn wide = ints("k", values, SIZE_MAX / 2);
  CHECK_EQ(encode_examples({&wide, 1}, 3, records, offsets).kind, FaultKind::kSchema);
}

TEST(framed_records_are_those_of_a_file) {
  const float floats[] = {1, 2, 3};
  const EncodeColumn column{
      .key = "x", .kind = ValueKind::kFloat, .floats = floats, .values = 3, .per_row = 1};
  Buffer records, offsets, frames;
  CHECK(!encode_examples({&column, 1}, 3, records, offsets));
  CHECK(!encode_framed({&column, 1}, 3, frames));
  samples::Bytes wanted;
  for (size_t row = 0; row < 3; ++row) {
    const uint64_t* at = offsets.as<uint64_t>() + row;
    const samples::Bytes frame = samples::framed({records.data() + at[0], records.data() + at[1]});
    wanted.insert(wanted.end(), frame.begin(), frame.end());
  }
  CHECK(samples::Bytes(frames.data(), frames.data() + frames.size()) == wanted);
  CHECK(!encode_framed({}, 2, frames));
  CHECK_EQ(frames.size(), 2 * kFraming);
}
