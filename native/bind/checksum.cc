#include "bind/arrays.h"
#include "bind/bind.h"
#include "core/crc32c.h"

namespace feedline::bind {

void bind_checksum(nb::module_& module) {
  module.def(
      "crc32c",
      [](const Bytes& bytes) {
        nb::gil_scoped_release release;
        return crc32c(view(bytes));
      },
      nb::arg("bytes"), "The CRC32C of an array of bytes, unmasked.");
}

}  // namespace feedline::bind
