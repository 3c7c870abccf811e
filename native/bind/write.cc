#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/compression.h"
#include "bind/faults.h"
#include "core/record_sink.h"

namespace feedline::bind {

namespace {

// Python's lock is kept for a small record: to give it away and get it back takes longer than to add one.
nb::object add(RecordSink& sink, nb::bytes record) {
  const std::span<const uint8_t> payload{static_cast<const uint8_t*>(record.data()), record.size()};
  Fault fault;
  if (!sink.try_add(payload, fault)) {
    {
      nb::gil_scoped_release release;
      const uint64_t offsets[2] = {0, payload.size()};
      fault = sink.add(payload, offsets, signalled);
    }
    raise_signalled();
  }
  return to_python(std::move(fault));
}

nb::object add_many(RecordSink& sink, Bytes payloads, In<uint64_t> offsets) {
  Fault fault;
  {
    nb::gil_scoped_release release;
    fault = sink.add(view(payloads), view(offsets), signalled);
  }
  raise_signalled();
  return to_python(std::move(fault));
}

nb::object close(RecordSink& sink) {
  Fault fault;
  {
    nb::gil_scoped_release release;
    fault = sink.close(signalled);
  }
  raise_signalled();
  return to_python(std::move(fault));
}

}  // namespace

void bind_write(nb::module_& module) {
  nb::class_<RecordSink>(module, "RecordSink", "Records -> a file. Each call gives None, or a Fault.")
      .def(
          "__init__",
          [](RecordSink* self, int fd, const std::string& compression) {
            new (self) RecordSink(fd, compression_from(compression));
          },
          nb::arg("fd"), nb::arg("compression"))
      .def("add", &add, nb::arg("record"))
      .def("add_many", &add_many, nb::arg("payloads"), nb::arg("offsets"),
           "Record i lies between offsets i and i + 1 of the payloads.")
      .def("note_thread", &RecordSink::note_thread, "Counts this thread among those that add records.")
      .def("has_this_thread", &RecordSink::has_this_thread, "Has it added records, or tried to?")
      .def("close", &close, "When the kernel has everything.")
      .def("drop", &RecordSink::drop, nb::call_guard<nb::gil_scoped_release>(),
           "From then on, nothing more is written.");
}

}  // namespace feedline::bind
