// Fault values for Python: None, or an object with the fault's fields.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "core/fault.h"

namespace feedline::bind {

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
