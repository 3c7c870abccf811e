#include "bind/arrays.h"
#include "bind/bind.h"
#include "core/crc32c.h"

namespace feedline::bind {

void bind_checksum(nb::module_& module) {
  module.def(
      "crc32c",
      [](const Bytes& bytes, uint32_t before) {
        nb::gil_scoped_release release;
        return crc32c(view(bytes), before);
      },
      nb::arg("bytes"), nb::arg("before") = 0,
      "The CRC32C of an array of bytes, unmasked; `before` is that of what lies in front of it.");
}

}  // namespace feedline::bind
