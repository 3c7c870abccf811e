#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <system_error>
#include <type_traits>

#include "bind/bind.h"
#include "core/shared_memory.h"
#include "core/watch.h"

namespace feedline::bind {

namespace nb = nanobind;

namespace {

// With elements that are const, it cannot be written to.
template <typename Element>
auto shared_memory(int fd, size_t size) {
  std::unique_ptr<SharedMemory> memory;
  try {
    nb::gil_scoped_release release;
    memory = std::make_unique<SharedMemory>(fd, size, !std::is_const_v<Element>);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
  uint8_t* const data = memory->data();
  const nb::capsule owner(memory.release(),
                          [](void* held) noexcept { delete static_cast<SharedMemory*>(held); });
  return nb::ndarray<Element, nb::numpy, nb::ndim<1>>(data, {size}, owner);
}

}  // namespace

void bind_process(nb::module_& module) {
  module.def("exit_with_peer", &exit_with_peer, nb::arg("socket"),
             "End this process at once when the other end of the socket is closed.");
  module.def("shared_memory", &shared_memory<uint8_t>, nb::arg("fd"), nb::arg("size"),
             "The memory behind a descriptor, which need not stay open, as an array.");
  module.def("mapped_file", &shared_memory<const uint8_t>, nb::arg("fd"), nb::arg("size"),
             "The same of a file that is only read.");
}

}  // namespace feedline::bind
