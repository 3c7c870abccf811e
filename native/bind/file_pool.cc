#include "bind/file_pool.h"

#include <nanobind/nanobind.h>

#include "bind/bind.h"

namespace feedline::bind {

namespace nb = nanobind;

void bind_file_pool(nb::module_& module) {
  nb::class_<PyFileBudget>(module, "FileBudget", "How many data files may be open at a time.")
      .def(
          "__init__",
          [](PyFileBudget* self, size_t limit) {
            new (self) PyFileBudget{std::make_shared<FileBudget>(limit)};
          },
          nb::arg("limit"))
      .def_static(
          "process",
          [] {
            return PyFileBudget{std::shared_ptr<FileBudget>(&FileBudget::process(), [](FileBudget*) {})};
          },
          "That of the whole process.")
      .def_prop_rw(
          "limit", [](const PyFileBudget& self) { return self.budget->limit(); },
          [](const PyFileBudget& self, size_t limit) { self.budget->set_limit(limit); },
          nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro(
          "open", [](const PyFileBudget& self) { return self.budget->open(); }, "Files that are open now.")
      .def_prop_ro(
          "most", [](const PyFileBudget& self) { return self.budget->most(); },
          "The most that were open at the same time.");
}

}  // namespace feedline::bind
