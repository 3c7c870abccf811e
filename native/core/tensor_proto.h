// Reads a serialized tensorflow.TensorProto, which is what tf.io.serialize_tensor writes.
//
// A TensorProto holds its elements in tensor_content, as memory, or in a field for its dtype (float_val,
// int_val, ...), where the last value stands for all that are left out. Both are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/fault.h"

namespace feedline {

// tensorflow.DataType, those that NumPy (with ml_dtypes) has too.
enum TensorType : int32_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kComplex128 = 18,
  kFloat16 = 19,
  kUint32 = 22,
  kUint64 = 23,
  kFloat8E5m2 = 24,
  kFloat8E4m3fn = 25,
  kFloat8E4m3fnuz = 26,
  kFloat8E4m3b11fnuz = 27,
  kFloat8E5m2fnuz = 28,
};

// Bytes of one element; 0 for strings and for what is not in TensorType.
size_t tensor_itemsize(int32_t dtype) noexcept;

// NumPy's name of the dtype ("float32", "string"), or nullptr when it is not in TensorType.
const char* dtype_name(int32_t dtype) noexcept;

// The other way round; 0 when there is no such dtype.
int32_t dtype_number(std::string_view name) noexcept;

// A tensor inside the bytes of its proto, which must outlive it.
struct TensorView {
  int32_t dtype = 0;
  std::vector<int64_t> dims;
  uint64_t elements = 0;
  std::vector<std::string_view> strings;  // of a string tensor; may be fewer than `elements`

  std::span<const uint8_t> proto;
  std::span<const uint8_t> content;  // all elements as memory; empty when they are in a typed field

  size_t size_bytes() const noexcept { return static_cast<size_t>(elements) * tensor_itemsize(dtype); }
  // Element `at` of a string tensor.
  std::string_view string(uint64_t at) const noexcept {
    if (strings.empty()) return {};
    return at < strings.size() ? strings[at] : strings.back();
  }
};

// Checks everything that fill() relies on. A few bytes can claim any number of elements, since the last value
// repeats: a tensor of more elements than `expected_elements` is taken only if its size is in proportion to
// the bytes that are there. `out` is reused: its vectors keep their memory.
Fault parse_tensor(std::span<const uint8_t> proto, TensorView& out, uint64_t expected_elements = 0);

// Writes the size_bytes() of a tensor that is not of strings to `out`.
void fill(const TensorView& tensor, uint8_t* out) noexcept;

}  // namespace feedline
