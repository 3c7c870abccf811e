// Fault values for Python: None, or an object with the fault's fields.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "core/fault.h"

namespace feedline::bind {

// For waits in the core, without Python's lock held: has a signal handler raised, as for Ctrl-C?
inline bool signalled() {
  nanobind::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

// After such a wait, with the lock held again: passes on what the handler raised.
inline void raise_signalled() {
  if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
}

inline nanobind::object to_python(Fault&& fault) {
  if (!fault) return nanobind::none();
  return nanobind::cast(std::move(fault));
}

inline nanobind::list to_python(std::vector<Fault>&& faults) {
  nanobind::list list;
  for (Fault& fault : faults) list.append(nanobind::cast(std::move(fault)));
  return list;
}

}  // namespace feedline::bind
