#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "bind/arrays.h"
#include "bind/bind.h"

namespace {

std::terminate_handler previous_terminate;

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

// Before Python 3.14, a daemon thread that comes back from native code while the interpreter ends is unwound
// by pthread_exit. C++ does not let that pass through destructors, and would abort the program. The thread
// sleeps until the process is gone instead, as Python 3.14 lets it do.
[[noreturn]] void terminate() {
  const bool is_unwound = abi::__cxa_current_exception_type() == nullptr;  // and throws nothing
  while (is_unwound && is_finalizing() && gettid() != getpid()) pause();
  previous_terminate();
  std::abort();
}

}  // namespace

NB_MODULE(_native, module) {
  using namespace feedline::bind;
  // A daemon thread of the user's keeps what it can reach alive past the end of the interpreter: its
  // iterators, and by its globals most other objects. No binding can release those, and they are no leaks.
  // Everything else is released, which the tests verify with the warnings switched on.
  nanobind::set_leak_warnings(false);
  previous_terminate = std::set_terminate(terminate);
  module.def("set_leak_warnings", &nanobind::set_leak_warnings, nanobind::arg("value"),
             "Tell on stderr which objects are alive when the interpreter has ended.");
  import_numpy();
  module.doc() = "feedline's compiled core; the modules of feedline wrap it, use those.";
  bind_buffer(module);
  bind_checksum(module);
  bind_file_pool(module);
  bind_gather(module);
  bind_header_walk(module);
  bind_pick(module);
  bind_shuffle(module);
  bind_records(module);
  bind_decode(module);
  bind_encode(module);
  bind_survey(module);
  bind_append(module);
  bind_process(module);
  bind_write(module);
  bind_part_file(module);
}
