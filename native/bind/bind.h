// One function per part of the core; each adds its names to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace feedline::bind {

void bind_buffer(nanobind::module_& module);

}  // namespace feedline::bind
