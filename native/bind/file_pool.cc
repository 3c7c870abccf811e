#include "core/file_pool.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include "bind/bind.h"

namespace feedline::bind {

namespace nb = nanobind;

void bind_file_pool(nb::module_& module) {
  nb::class_<FileBudget>(module, "FileBudget", "How many data files may be open at a time.")
      .def(nb::init<size_t>(), nb::arg("limit"))
      .def_static("process", &FileBudget::process, nb::rv_policy::reference, "That of the whole process.")
      .def_prop_rw("limit", &FileBudget::limit, &FileBudget::set_limit,
                   nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("open", &FileBudget::open, "Files that are open now.")
      .def_prop_ro("most", &FileBudget::most, "The most that were open at the same time.");
}

}  // namespace feedline::bind
