#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "core/tensor_proto.h"

using namespace feedline;

namespace {

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string number(uint32_t field, uint64_t value) { return varint(field << 3) + varint(value); }
std::string field(uint32_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string shape(const std::vector<uint64_t>& dims) {
  std::string bytes;
  for (uint64_t dim : dims) bytes += field(2, number(1, dim));
  return field(2, bytes);
}
template <class T>
std::string memory(std::initializer_list<T> values) {
  std::string bytes;
  for (T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

Fault parse(const std::string& proto, TensorView& tensor, uint64_t expected = 0) {
  return parse_tensor({reinterpret_cast<const uint8_t*>(proto.data()), proto.size()}, tensor, expected);
}

std::string filled(const TensorView& tensor) {
  std::string out(tensor.size_bytes(), '\xee');
  fill(tensor, reinterpret_cast<uint8_t*>(out.data()));
  return out;
}

// The bytes that the proto's elements fill, or what is wrong with it.
std::string contents(const std::string& proto) {
  TensorView tensor;
  if (Fault fault = parse(proto, tensor)) return fault.what;
  return filled(tensor);
}

FaultKind fault_of(const std::string& proto) {
  TensorView tensor;
  return parse(proto, tensor).kind;
}

constexpr uint64_t kMinusOne = ~uint64_t{0};

}  // namespace

TEST(content_is_the_memory_of_the_elements) {
  const std::string bytes = memory<float>({1.5f, 2.5f});
  const std::string proto = number(1, kFloat32) + shape({2, 1}) + field(4, bytes);
  TensorView tensor;
  CHECK(!parse(proto, tensor));
  CHECK_EQ(tensor.dtype, kFloat32);
  CHECK(tensor.dims == std::vector<int64_t>({2, 1}));
  CHECK_EQ(filled(tensor), bytes);
}

TEST(a_view_can_be_used_again) {
  const std::string strings = number(1, kString) + shape({2}) + field(8, "a") + field(8, "b");
  const std::string scalar = number(1, kInt32) + number(7, 5);
  TensorView tensor;
  CHECK(!parse(strings, tensor));
  CHECK(!parse(scalar, tensor));
  CHECK(tensor.dims.empty());
  CHECK(tensor.strings.empty());
  CHECK_EQ(filled(tensor), memory<int32_t>({5}));
}

TEST(typed_values_may_be_packed_or_not_or_both) {
  const std::string head = number(1, kInt64) + shape({3});
  const std::string expected = memory<int64_t>({1, -1, 300});
  CHECK_EQ(contents(head + field(10, varint(1) + varint(kMinusOne) + varint(300))), expected);
  CHECK_EQ(contents(head + number(10, 1) + number(10, kMinusOne) + number(10, 300)), expected);
  CHECK_EQ(contents(number(10, 1) + field(10, varint(kMinusOne) + varint(300)) + head), expected);
}

TEST(the_last_value_repeats_none_are_zeros_and_more_are_cut) {
  const std::string head = number(1, kFloat64) + shape({3});
  CHECK_EQ(contents(head + field(6, memory<double>({1, 2}))), memory<double>({1, 2, 2}));
  CHECK_EQ(contents(head), memory<double>({0, 0, 0}));
  CHECK_EQ(contents(head + field(6, memory<double>({1, 2, 3, 4}))), memory<double>({1, 2, 3}));
}

TEST(complex_numbers_are_pairs_and_half_of_one_is_none) {
  const std::string head = number(1, kComplex64) + shape({2});
  CHECK_EQ(contents(head + field(9, memory<float>({1, 2, 3, 4}))), memory<float>({1, 2, 3, 4}));
  CHECK_EQ(contents(head + field(9, memory<float>({1, 2, 3}))), memory<float>({1, 2, 1, 2}));
  CHECK_EQ(contents(head + field(9, memory<float>({1}))), memory<float>({0, 0, 0, 0}));
}

TEST(bools_are_0_or_1) {
  CHECK_EQ(contents(number(1, kBool) + shape({3}) + field(4, std::string("\x00\x01\x40", 3))),
           std::string("\0\1\1", 3));
  CHECK_EQ(contents(number(1, kBool) + shape({2}) + field(11, std::string("\x00\x40", 2))),
           std::string("\0\1", 2));
}

TEST(small_types_take_the_low_bytes) {
  CHECK_EQ(contents(number(1, kInt8) + shape({2}) + field(7, varint(kMinusOne) + varint(5))),
           std::string("\xff\x05"));
  CHECK_EQ(contents(number(1, kBfloat16) + shape({1}) + field(13, varint(0x3f80))),
           memory<uint16_t>({0x3f80}));
  CHECK_EQ(contents(number(1, kFloat8E5m2) + shape({3}) + field(18, "ab")), "abb");
}

TEST(strings_are_views_and_the_last_repeats) {
  const std::string proto = number(1, kString) + shape({3}) + field(8, "a") + field(8, "bc");
  TensorView tensor;
  CHECK(!parse(proto, tensor));
  CHECK_EQ(tensor.elements, 3u);
  CHECK_EQ(tensor.string(0), "a");
  CHECK_EQ(tensor.string(1), "bc");
  CHECK_EQ(tensor.string(2), "bc");
  const std::string lengths =
      std::string(number(1, kString)) + shape({2}) + field(4, std::string("\x01\x02") + "abc");
  CHECK(!parse(lengths, tensor));
  CHECK_EQ(tensor.string(0), "a");
  CHECK_EQ(tensor.string(1), "bc");
}

TEST(a_shape_that_lies_about_the_content_is_corrupt) {
  const std::string content = field(4, memory<float>({1, 2}));
  for (const auto& dims : std::vector<std::vector<uint64_t>>{{},
                                                             {3},
                                                             {1},
                                                             {0},
                                                             {kMinusOne, kMinusOne},
                                                             {uint64_t{1} << 62, 4},
                                                             {uint64_t{1} << 63},
                                                             {0, INT64_MAX, INT64_MAX}}) {
    CHECK_EQ(fault_of(number(1, kFloat32) + shape(dims) + content), FaultKind::kCorrupt);
  }
  CHECK_EQ(fault_of(number(1, kString) + shape({2}) + field(4, std::string("\x01\x7f") + "abc")),
           FaultKind::kCorrupt);
  CHECK_EQ(fault_of(number(1, kString) + shape({uint64_t{1} << 40}) + field(4, "abc")), FaultKind::kCorrupt);
}

TEST(a_few_bytes_cannot_claim_many_elements_unless_they_are_expected) {
  const std::string proto = number(1, kFloat32) + shape({uint64_t{1} << 40}) + field(5, memory<float>({1}));
  TensorView tensor;
  CHECK_EQ(parse(proto, tensor).kind, FaultKind::kCorrupt);
  CHECK(!parse(proto, tensor, uint64_t{1} << 40));
  CHECK_EQ(fault_of(number(1, kFloat32) + shape({1000}) + field(5, memory<float>({1}))), FaultKind::kNone);
  CHECK_EQ(fault_of(number(1, kString) + shape({uint64_t{1} << 40})), FaultKind::kCorrupt);
}

TEST(unknown_ranks_dtypes_and_too_many_dimensions_are_faults) {
  CHECK_EQ(fault_of(number(1, kInt32) + field(2, number(3, 1))), FaultKind::kCorrupt);
  CHECK_EQ(fault_of(""), FaultKind::kCorrupt);
  CHECK_EQ(fault_of(number(1, 20)), FaultKind::kSchema);
  CHECK_EQ(fault_of(number(1, kInt32) + shape(std::vector<uint64_t>(254, 1)) + number(7, 1)),
           FaultKind::kNone);
  CHECK_EQ(fault_of(number(1, kInt32) + shape(std::vector<uint64_t>(255, 1)) + number(7, 1)),
           FaultKind::kCorrupt);
}

TEST(every_cut_of_a_proto_is_read_within_its_bounds) {
  const std::string proto = number(1, kInt64) + shape({2, 2}) + field(10, varint(1) + varint(300)) +
                            number(10, 9) + field(8, "text") + field(99, "unknown");
  for (size_t size = 0; size <= proto.size(); ++size) {
    std::vector<uint8_t> exact(proto.begin(),
                               proto.begin() + static_cast<ptrdiff_t>(size));  // the sanitizer sees its end
    TensorView tensor;
    if (!parse_tensor(exact, tensor)) filled(tensor);
  }
  CHECK_EQ(contents(proto), memory<int64_t>({1, 300, 9, 9}));
}

TEST(names_and_numbers_of_dtypes_agree) {
  for (int32_t dtype = 0; dtype < 40; ++dtype) {
    const char* name = dtype_name(dtype);
    if (name != nullptr) CHECK_EQ(dtype_number(name), dtype);
  }
  CHECK_EQ(std::string(dtype_name(kBfloat16)), "bfloat16");
  CHECK_EQ(dtype_number("qint8"), 0);
  CHECK_EQ(tensor_itemsize(kComplex128), 16u);
}
