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

nb::object sound_frames(const RecordBatch& batch) {
  Buffer frames;
  {
    nb::gil_scoped_release release;
    for (const RecordView& record : batch.records) {
      if (!payload_holds(record)) continue;
      const size_t whole = kHeaderSize + static_cast<size_t>(record.size) + kFooterSize;
      const size_t end = frames.size();
      frames.resize(end + whole);
      std::memcpy(frames.data() + end, record.data - kHeaderSize, whole);
    }
  }
  return give<uint8_t>(std::move(frames));
}

}  // namespace

void bind_records(nb::module_& module) {
  nb::class_<Fault>(module, "Fault")
      .def_prop_ro("kind", &kind_name)
      .def_ro("what", &Fault::what)
      .def_ro("path", &Fault::path)
      .def_prop_ro("record", [](const Fault& fault) { return known(fault.record); })
      .def_prop_ro("offset", [](const Fault& fault) { return known(fault.offset); })
      .def_ro("feature", &Fault::feature)
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
      .def("sound_frames", &sound_frames,
           "The framed bytes of the records whose checksums hold, back to back.");

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
            return nb::make_tuple(checked.good, checked.bytes, to_python(std::move(checked.faults)),
                                  to_python(std::move(checked.end)));
          },
          nb::arg("max_bytes"),
          "Checks the records that follow: (good records, payload bytes, faults, the fault at the end or "
          "None).")
      .def_prop_ro("done", &RecordReader::done)
      .def_prop_ro("compression",
                   [](const RecordReader& reader) { return compression_name(reader.source().compression()); })
      .def_prop_ro("consumed", [](const RecordReader& reader) { return reader.source().consumed(); })
      .def_prop_ro("file_size", [](const RecordReader& reader) { return reader.source().file_size(); });

  module.def(
      "open_records",
      [](const std::string& path, const std::string& compression, bool resync) {
        std::unique_ptr<RecordReader> reader;
        const Compression kind = compression_from(compression);
        const auto on_damage = resync ? RecordReader::OnDamage::kResync : RecordReader::OnDamage::kStop;
        Fault fault;
        {
          nb::gil_scoped_release release;
          fault = RecordReader::open(path, kind, on_damage, reader, &signalled);
        }
        raise_signalled();
        return fault ? to_python(std::move(fault))
                     : nb::cast(reader.release(), nb::rv_policy::take_ownership);
      },
      nb::arg("path"), nb::arg("compression"), nb::arg("resync"),
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
