#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/compression.h"
#include "bind/faults.h"
#include "core/framing.h"
#include "core/record_reader.h"

namespace feedline::bind {

namespace {

const char* kind_name(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kCorrupt:
      return "corrupt";
    case FaultKind::kSchema:
      return "schema";
    case FaultKind::kIo:
      return "io";
    case FaultKind::kNone:
      break;
  }
  return "none";
}

std::optional<int64_t> known(int64_t place) {
  return place < 0 ? std::nullopt : std::optional<int64_t>(place);
}

nb::bytes to_bytes(const RecordView& record) {
  return nb::bytes(record.data, static_cast<size_t>(record.size));
}

template <class Field>
nb::object column(const RecordBatch& batch, Field RecordView::* field) {
  Buffer values(batch.records.size() * sizeof(Field));
  for (size_t i = 0; i < batch.records.size(); ++i) values.as<Field>()[i] = batch.records[i].*field;
  return give<Field>(std::move(values));
}

nb::object frames(const RecordBatch& batch) {
  Buffer framed(batch.bytes + batch.records.size() * (kHeaderSize + kFooterSize));
  {
    nb::gil_scoped_release release;
    uint8_t* out = framed.data();
    for (const RecordView& record : batch.records) {
      const size_t whole = kHeaderSize + static_cast<size_t>(record.size) + kFooterSize;
      std::memcpy(out, record.data - kHeaderSize, whole);
      out += whole;
    }
  }
  return give<uint8_t>(std::move(framed));
}

}  // namespace

void bind_records(nb::module_& module) {
  nb::class_<Fault>(module, "Fault")
      .def_prop_ro("kind", &kind_name)
      .def_ro("what", &Fault::what)
      .def_prop_ro("path",
                   [](const Fault& fault) {
                     return nb::steal<nb::str>(PyUnicode_DecodeFSDefaultAndSize(
                         fault.path.data(), static_cast<Py_ssize_t>(fault.path.size())));
                   })
      .def_prop_ro("record", [](const Fault& fault) { return known(fault.record); })
      .def_prop_ro("offset", [](const Fault& fault) { return known(fault.offset); })
      .def_ro("feature", &Fault::feature)
      .def_prop_ro("payload",
                   [](const Fault& fault) { return nb::bytes(fault.payload.data(), fault.payload.size()); })
      .def_ro("os_error", &Fault::os_error);

  nb::class_<RecordBatch>(module, "RecordBatch", "Records in order, still in the chunks they were read in.")
      .def("__len__", [](const RecordBatch& batch) { return batch.records.size(); })
      .def("to_list",
           [](const RecordBatch& batch) {
             nb::list list;
             for (const RecordView& record : batch.records) list.append(to_bytes(record));
             return list;
           })
      .def_prop_ro("numbers", [](const RecordBatch& batch) { return column(batch, &RecordView::number); })
      .def_prop_ro("offsets", [](const RecordBatch& batch) { return column(batch, &RecordView::offset); })
      .def_prop_ro("sizes", [](const RecordBatch& batch) { return column(batch, &RecordView::size); })
      .def_prop_ro("bytes", [](const RecordBatch& batch) { return batch.bytes; })
      .def(
          "take_skipped", [](RecordBatch& batch) { return to_python(std::exchange(batch.skipped, {})); },
          "The damaged stretches that were passed over; they are handed out once.")
      .def(
          "check",
          [](const RecordBatch& batch) {
            std::vector<Fault> faults;
            {
              nb::gil_scoped_release release;
              for (size_t i = 0; i < batch.records.size(); ++i) {
                if (payload_holds(batch.records[i])) continue;
                faults.push_back(payload_fault(batch.records[i]));
                faults.back().path = batch.path_of(i);
              }
            }
            return to_python(std::move(faults));
          },
          "One fault for each record whose payload does not fit its checksum.")
      .def("frames", &frames, "The framed bytes of the records, back to back.");

  nb::class_<RecordReader>(module, "RecordReader", "One TFRecord file, read forward in chunks.")
      .def(
          "next",
          [](RecordReader& reader, size_t max_records, size_t max_bytes) {
            RecordBatch batch;
            Fault fault;
            {
              nb::gil_scoped_release release;
              fault = reader.next(max_records, max_bytes, batch);
            }
            raise_signalled();
            return nb::make_tuple(nb::cast(std::move(batch)), to_python(std::move(fault)));
          },
          nb::arg("max_records"), nb::arg("max_bytes"), "A RecordBatch, and the fault after it or None.")
      .def(
          "check",
          [](RecordReader& reader, size_t max_bytes) {
            RecordReader::Checked checked;
            {
              nb::gil_scoped_release release;
              checked = reader.check(max_bytes);
            }
            raise_signalled();
            return nb::make_tuple(checked.good, checked.bytes, to_python(std::move(checked.skipped)),
                                  to_python(std::move(checked.fault)));
          },
          nb::arg("max_bytes"),
          "Checks the records that follow: (good records, payload bytes, faults, the fault at the end or "
          "None).")
      .def_prop_ro("done", &RecordReader::done)
      .def_prop_ro("compression",
                   [](const RecordReader& reader) { return compression_name(reader.source().compression()); })
      .def_prop_ro("padding", [](const RecordReader& reader) { return reader.source().padding(); })
      .def_prop_ro("consumed", [](const RecordReader& reader) { return reader.source().consumed(); })
      .def_prop_ro("file_size", [](const RecordReader& reader) { return reader.source().file_size(); });

  module.def(
      "open_records",
      [](nb::bytes path, const std::string& compression, bool resync, bool verify) {
        const std::string name(path.c_str(), path.size());
        std::unique_ptr<RecordReader> reader;
        const Compression kind = compression_from(compression);
        const auto on_damage = !resync  ? RecordReader::OnDamage::kStop
                               : verify ? RecordReader::OnDamage::kResync
                                        : RecordReader::OnDamage::kResyncHeaders;
        Fault fault;
        {
          nb::gil_scoped_release release;
          fault = RecordReader::open(name, kind, on_damage, reader, &signalled);
        }
        raise_signalled();
        return fault ? to_python(std::move(fault))
                     : nb::cast(reader.release(), nb::rv_policy::take_ownership);
      },
      nb::arg("path"), nb::arg("compression"), nb::arg("resync"), nb::arg("verify"),
      "A RecordReader, or the Fault that kept it closed.");

  module.def(
      "frame",
      [](nb::bytes payload) {
        const auto* data = static_cast<const uint8_t*>(payload.data());
        Buffer framed(kHeaderSize + payload.size() + kFooterSize);
        std::memcpy(framed.data() + kHeaderSize, data, payload.size());
        write_frame_around({data, payload.size()}, framed.data(),
                           framed.data() + kHeaderSize + payload.size());
        return nb::bytes(framed.data(), framed.size());
      },
      nb::arg("payload"), "The payload with its header and footer.");
}

}  // namespace feedline::bind
