#include "core/survey.h"

#include <nanobind/nanobind.h>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/faults.h"
#include "core/record_reader.h"

namespace feedline::bind {

namespace {

nb::object to_python(const Extent& extent) {
  if (extent.empty()) return nb::none();
  return nb::make_tuple(extent.least, extent.most);
}

nb::dict to_python(const std::vector<KeySurvey>& keys, bool lists) {
  constexpr const char* kKinds[] = {"none", "bytes", "float32", "int64"};
  nb::dict result;
  for (const KeySurvey& key : keys) {
    nb::dict kinds;
    for (size_t kind = 0; kind < key.kinds.size(); ++kind) {
      if (key.kinds[kind] != 0) kinds[kKinds[kind]] = key.kinds[kind];
    }
    nb::dict seen;
    seen["records"] = key.records;
    seen["kinds"] = kinds;
    seen["values"] = to_python(key.values);
    seen["bytes"] = to_python(key.bytes);
    if (lists) seen["steps"] = to_python(key.steps);
    result[nb::str(key.key.data(), key.key.size())] = seen;
  }
  return result;
}

nb::dict result_of(const Survey& survey) {
  nb::dict result;
  result["records"] = survey.records();
  result["malformed"] = survey.malformed();
  result["sequence"] = survey.sequence();
  result["too_many_keys"] = survey.too_many_keys();
  result["context"] = to_python(survey.context(), false);
  result["feature_lists"] = to_python(survey.feature_lists(), true);
  return result;
}

}  // namespace

void bind_survey(nb::module_& module) {
  nb::class_<Survey>(module, "Survey", "What the records of an unknown file hold.")
      .def(nb::init<>())
      .def(
          "add",
          [](Survey& survey, nb::bytes record) {
            return to_python(survey.add({static_cast<const uint8_t*>(record.data()), record.size()}));
          },
          nb::arg("record"), "None, or the Fault of a record that is no Example.")
      .def(
          "add_batch",
          [](Survey& survey, const RecordBatch& batch) {
            nb::gil_scoped_release release;
            for (const RecordView& record : batch.records) {
              (void)survey.add(record.payload());
            }
          },
          nb::arg("batch"), "Adds every record of the batch.")
      .def("result", &result_of,
           "Counts of records; by key, the kinds seen and (least, most) values, bytes and steps, or None.");
}

}  // namespace feedline::bind
