#include "core/buffer.h"

#include <cstring>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "core/stream_copy.h"

namespace feedline::bind {

namespace {

void copy_past_caches(const nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& out,
                      const Bytes& bytes) {
  if (out.size() != bytes.size()) throw nb::value_error("out: must have the size of bytes");
  nb::gil_scoped_release release;
  constexpr size_t kLine = 64;
  const size_t lines = bytes.size() / kLine * kLine;
  stream_copy(out.data(), bytes.data(), lines);
  end_stream();
  std::memcpy(out.data() + lines, bytes.data() + lines, bytes.size() - lines);
}

}  // namespace

void bind_buffer(nb::module_& module) {
  module.def(
      "empty", [](size_t size) { return give<uint8_t>(Buffer(size)); }, nb::arg("size"),
      "An uninitialised array of `size` bytes from the pool, 64-byte aligned.");
  module.def("is_aligned", &is_aligned, nb::arg("array"),
             "Is the array C-contiguous and on a 64-byte boundary?");
  module.def("copy_past_caches", &copy_past_caches, nb::arg("out"), nb::arg("bytes"),
             "Copy bytes into `out`, which has room for them: for more than the caches hold.");
  module.def("pooled_bytes", &pooled_bytes, "Bytes that wait in the pool for their next use.");
}

}  // namespace feedline::bind
