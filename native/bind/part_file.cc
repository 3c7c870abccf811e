#include "core/part_file.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/faults.h"

namespace feedline::bind {

namespace {

nb::object append(PartFile& part, std::span<const uint8_t> payloads, std::span<const uint64_t> offsets) {
  Fault fault;
  {
    nb::gil_scoped_release release;
    fault = part.append(payloads, offsets, signalled);
  }
  raise_signalled();
  return to_python(std::move(fault));
}

}  // namespace

void bind_part_file(nb::module_& module) {
  nb::class_<PartFile>(module, "PartFile", "A file of records, until it is taken away. See core/part_file.h.")
      .def(
          "__init__",
          [](PartFile* self, int fd, nb::bytes path) {
            new (self) PartFile(fd, std::string(path.c_str(), path.size()));
          },
          nb::arg("fd"), nb::arg("path"))
      .def(
          "append",
          [](PartFile& part, nb::bytes record) {
            const uint64_t offsets[2] = {0, record.size()};
            return append(part, {static_cast<const uint8_t*>(record.data()), record.size()}, offsets);
          },
          nb::arg("record"), "None, or a Fault.")
      .def(
          "append_many",
          [](PartFile& part, const Bytes& payloads, const In<uint64_t>& offsets) {
            return append(part, view(payloads), view(offsets));
          },
          nb::arg("payloads"), nb::arg("offsets"),
          "Record i lies between offsets i and i + 1 of the payloads. None, or a Fault.")
      .def_prop_ro("size", &PartFile::size)
      .def_prop_ro("records", &PartFile::records);
}

}  // namespace feedline::bind
