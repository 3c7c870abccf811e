#include "core/buffer.h"

#include "bind/arrays.h"
#include "bind/bind.h"

namespace feedline::bind {

void bind_buffer(nb::module_& module) {
  module.def(
      "empty", [](size_t size) { return give<uint8_t>(Buffer(size)); }, nb::arg("size"),
      "An uninitialised array of `size` bytes from the pool, 64-byte aligned.");
  module.def("is_aligned", &is_aligned, nb::arg("array"),
             "Is the array C-contiguous and on a 64-byte boundary?");
  module.def("pooled_bytes", &pooled_bytes, "Bytes that wait in the pool for their next use.");
}

}  // namespace feedline::bind
