// One function per part of the core; each adds its names to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace feedline::bind {

void bind_append(nanobind::module_& module);
void bind_buffer(nanobind::module_& module);
void bind_checksum(nanobind::module_& module);
void bind_decode(nanobind::module_& module);
void bind_encode(nanobind::module_& module);
void bind_file_pool(nanobind::module_& module);
void bind_gather(nanobind::module_& module);
void bind_header_walk(nanobind::module_& module);
void bind_part_file(nanobind::module_& module);
void bind_pick(nanobind::module_& module);
void bind_shuffle(nanobind::module_& module);
void bind_records(nanobind::module_& module);
void bind_survey(nanobind::module_& module);
void bind_process(nanobind::module_& module);
void bind_write(nanobind::module_& module);

}  // namespace feedline::bind
