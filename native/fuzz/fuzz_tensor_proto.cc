// A TensorProto of any bytes is refused or filled, within its bounds.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor_proto.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // An exact copy: the sanitizer then sees a read of a single byte too many.
  const std::vector<uint8_t> proto(data, data + size);
  feedline::TensorView tensor;
  if (feedline::parse_tensor(proto, tensor)) return 0;
  std::vector<uint8_t> elements(tensor.size_bytes());
  feedline::fill(tensor, elements.data());
  size_t bytes = 0;
  if (tensor.dtype == feedline::kString) {
    for (uint64_t i = 0; i < tensor.elements; ++i) bytes += tensor.string(i).size();
  }
  return bytes == SIZE_MAX ? 1 : 0;
}
