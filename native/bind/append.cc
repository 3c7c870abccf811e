#include <algorithm>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/faults.h"
#include "core/append_file.h"

namespace feedline::bind {

namespace {

nb::object append(AppendFile& file, std::span<const uint8_t> bytes, std::span<const uint64_t> offsets) {
  Fault fault;
  {
    nb::gil_scoped_release release;
    const Buffer frames = framed(bytes, offsets);
    fault = file.append(frames.bytes(), static_cast<int64_t>(offsets.size() - 1), &signalled);
  }
  raise_signalled();
  return to_python(std::move(fault));
}

nb::object append_batch(AppendFile& file, Bytes records, In<uint64_t> offsets) {
  const auto bounds = view(offsets);
  if (bounds.empty() || bounds.front() != 0 || bounds.back() != records.size() ||
      !std::ranges::is_sorted(bounds)) {
    throw nb::value_error("offsets must rise from 0 to the size of records");
  }
  return append(file, view(records), bounds);
}

}  // namespace

void bind_append(nb::module_& module) {
  nb::class_<AppendFile>(module, "AppendFile",
                         "A growing TFRecord file that processes share; one thread at a time.")
      .def(
          "append",
          [](AppendFile& file, nb::bytes record) {
            const uint64_t offsets[2] = {0, record.size()};
            return append(file, {static_cast<const uint8_t*>(record.data()), record.size()}, offsets);
          },
          nb::arg("record"), "Appends one record; None, or the Fault for which it was not.")
      .def("append_batch", &append_batch, nb::arg("records"), nb::arg("offsets"),
           "The same for the records that lie between the offsets.")
      .def(
          "sync",
          [](AppendFile& file) {
            Fault fault;
            {
              nb::gil_scoped_release release;
              fault = file.sync();
            }
            return to_python(std::move(fault));
          },
          "Brings what was appended to the disk.")
      .def("close", &AppendFile::close, "Closes the descriptor; the next append opens the file again.");

  module.def(
      "open_append",
      [](nb::bytes path, uint64_t known_end, int64_t known_records) {
        const std::string name(path.c_str(), path.size());
        std::unique_ptr<AppendFile> file;
        Fault fault;
        {
          nb::gil_scoped_release release;
          fault = AppendFile::open(name, known_end, known_records, &signalled, file);
        }
        raise_signalled();
        return fault ? to_python(std::move(fault)) : nb::cast(file.release(), nb::rv_policy::take_ownership);
      },
      nb::arg("path"), nb::arg("known_end"), nb::arg("known_records"),
      "An AppendFile, or the Fault that kept it closed. A torn tail is cut off.");
}

}  // namespace feedline::bind
