#include "core/encode.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/faults.h"
#include "core/record_sink.h"
#include "core/tensor_proto.h"

namespace feedline::bind {

namespace {

// The column of a single row, and what its pointers point to where that is not the user's own memory.
struct Row {
  EncodeColumn column;
  nb::object key, value;  // kept alive: a conversion in Python could drop them from the user's dict
  int64_t one_int = 0;
  float one_float = 0;
  int64_t one_string[2] = {0, 0};
  std::vector<int64_t> ints;  // numbers, or the offsets of strings
  std::vector<float> floats;
  std::string bytes;

  void set(ValueKind kind, size_t count) {
    column.kind = kind;
    column.values = column.per_row = count;
  }
  void set_ints(const int64_t* data, size_t count) {
    column.ints = data;
    set(ValueKind::kInt64, count);
  }
  void set_floats(const float* data, size_t count) {
    column.floats = data;
    set(ValueKind::kFloat, count);
  }
  void set_strings(std::string_view text, const int64_t* offsets, size_t count) {
    column.bytes = text;
    column.byte_offsets = offsets;
    set(ValueKind::kBytes, count);
  }
};

// False, with no error set, when it is no int, or one that is too large.
bool as_int(PyObject* value, int64_t& out) {
  if (!PyLong_Check(value)) return false;
  int overflow = 0;
  out = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

// A double that is finite, but not as a float, does not fit.
inline bool narrow(double value, float& out) {
  out = static_cast<float>(value);
  return !std::isinf(out) || std::isinf(value);
}

bool as_float(PyObject* value, float& out) {
  return PyFloat_Check(value) && narrow(PyFloat_AS_DOUBLE(value), out);
}

bool as_text(PyObject* value, std::string_view& out) {
  if (PyBytes_Check(value)) {
    out = {PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value))};
    return true;
  }
  if (!PyUnicode_Check(value)) return false;
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(value, &size);
  if (data == nullptr) {
    PyErr_Clear();  // a lone surrogate
    return false;
  }
  out = {data, static_cast<size_t>(size)};
  return true;
}

bool take_items(PyObject* const* items, size_t count, Row& row) {
  if (count == 0) {
    row.set(ValueKind::kNone, 0);
    return true;
  }
  if (PyFloat_Check(items[0])) {
    row.floats.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (!as_float(items[i], row.floats[i])) return false;
    }
    row.set_floats(row.floats.data(), count);
    return true;
  }
  if (PyLong_Check(items[0])) {
    row.ints.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (!as_int(items[i], row.ints[i])) return false;
    }
    row.set_ints(row.ints.data(), count);
    return true;
  }
  row.ints.assign(1, 0);
  for (size_t i = 0; i < count; ++i) {
    std::string_view text;
    if (!as_text(items[i], text)) return false;
    row.bytes += text;
    row.ints.push_back(static_cast<int64_t>(row.bytes.size()));
  }
  row.set_strings(row.bytes, row.ints.data(), count);
  return true;
}

template <class From>
bool widen(const void* data, size_t count, Row& row) {
  const From* from = static_cast<const From*>(data);
  row.ints.assign(from, from + count);
  row.set_ints(row.ints.data(), count);
  return true;
}

bool narrow_all(const double* from, size_t count, Row& row) {
  row.floats.resize(count);
  bool all = true;
  for (size_t i = 0; i < count; ++i) all &= narrow(from[i], row.floats[i]);
  row.set_floats(row.floats.data(), count);
  return all;
}

bool take_array(PyArrayObject* array, Row& row) {
  if (!PyArray_ISCARRAY_RO(array)) return false;  // also not in another byte order
  const auto count = static_cast<size_t>(PyArray_SIZE(array));
  const void* data = PyArray_DATA(array);
  switch (PyArray_TYPE(array)) {
    case NPY_LONG:
    case NPY_LONGLONG:
      row.set_ints(static_cast<const int64_t*>(data), count);
      return true;
    case NPY_FLOAT:
      row.set_floats(static_cast<const float*>(data), count);
      return true;
    case NPY_DOUBLE:
      return narrow_all(static_cast<const double*>(data), count, row);
    case NPY_BOOL:
    case NPY_UINT8:
      return widen<uint8_t>(data, count, row);
    case NPY_INT8:
      return widen<int8_t>(data, count, row);
    case NPY_INT16:
      return widen<int16_t>(data, count, row);
    case NPY_UINT16:
      return widen<uint16_t>(data, count, row);
    case NPY_INT32:
      return widen<int32_t>(data, count, row);
    case NPY_UINT32:
      return widen<uint32_t>(data, count, row);
    default:
      return false;
  }
}

// Fills the row's column from a value of the usual types; false when Python has to look at it.
bool take(nb::handle value, Row& row) {
  PyObject* object = value.ptr();
  row.value = nb::borrow(value);
  if (PyArray_Check(object)) return take_array(reinterpret_cast<PyArrayObject*>(object), row);
  if (PyLong_Check(object)) {
    row.set_ints(&row.one_int, 1);
    return as_int(object, row.one_int);
  }
  if (PyFloat_Check(object)) {
    row.set_floats(&row.one_float, 1);
    return as_float(object, row.one_float);
  }
  std::string_view text;
  if (as_text(object, text)) {
    row.one_string[1] = static_cast<int64_t>(text.size());
    row.set_strings(text, row.one_string, 1);
    return true;
  }
  if (PyList_Check(object) || PyTuple_Check(object)) {
    return take_items(PySequence_Fast_ITEMS(object), static_cast<size_t>(PySequence_Fast_GET_SIZE(object)),
                      row);
  }
  if (PyArray_IsScalar(object, Long)) {  // the type of an int64 array's elements
    static_assert(sizeof(npy_long) == sizeof(int64_t));
    row.one_int = PyArrayScalar_VAL(object, Long);
    row.set_ints(&row.one_int, 1);
    return true;
  }
  if (PyArray_IsScalar(object, Float)) {
    row.one_float = PyArrayScalar_VAL(object, Float);
    row.set_floats(&row.one_float, 1);
    return true;
  }
  if (PyArray_IsScalar(object, Generic)) {
    row.value = nb::steal(PyArray_FromScalar(object, nullptr));
    if (!row.value.is_valid()) throw nb::python_error();
    return take_array(reinterpret_cast<PyArrayObject*>(row.value.ptr()), row);
  }
  return false;
}

// The GIL is kept: the usual Example is written in less time than it takes to hand the GIL over and back.
nb::object encode_example(nb::dict example, nb::callable convert) {
  std::vector<Row> rows(example.size());
  std::vector<EncodeColumn> columns;
  columns.reserve(rows.size());
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(example.ptr(), &position, &key, &value)) {
    if (value == Py_None && PyUnicode_Check(key)) continue;
    if (columns.size() == rows.size()) throw std::runtime_error("the dict changed while it was encoded");
    Row& row = rows[columns.size()];
    row.key = nb::borrow(key);
    // What we do not know Python turns into what we do, or it raises.
    if (!PyUnicode_Check(key) || !as_text(key, row.column.key) || !take(value, row)) {
      nb::object known = convert(row.key, nb::borrow(value));
      if (!as_text(key, row.column.key) || !take(known, row)) {
        throw nb::type_error("convert() gave a value that cannot be encoded");
      }
    }
    columns.push_back(row.column);
  }
  Buffer records, offsets;
  if (Fault fault = encode_examples(columns, 1, records, offsets)) return to_python(std::move(fault));
  return nb::bytes(records.data(), records.size());
}

// Columns of many rows, added one by one; the arrays are kept alive, and not copied.
class ExampleEncoder {
 public:
  explicit ExampleEncoder(size_t rows) : rows_(rows) {}

  using Offsets = std::optional<In<int64_t>>;

  void add_numbers(std::string key, std::variant<In<int64_t>, In<float>> values, size_t per_row,
                   Offsets row_offsets) {
    EncodeColumn column;
    if (auto* ints = std::get_if<In<int64_t>>(&values)) {
      column = {.kind = ValueKind::kInt64, .ints = ints->data(), .values = ints->size()};
      keep(std::move(*ints));
    } else if (auto* floats = std::get_if<In<float>>(&values)) {
      column = {.kind = ValueKind::kFloat, .floats = floats->data(), .values = floats->size()};
      keep(std::move(*floats));
    }
    add(std::move(key), column, per_row, std::move(row_offsets));
  }

  void add_strings(std::string key, Bytes data, In<int64_t> byte_offsets, size_t per_row,
                   Offsets row_offsets) {
    if (byte_offsets.size() == 0) throw nb::value_error("byte_offsets is empty; it begins with 0");
    EncodeColumn column{.kind = ValueKind::kBytes,
                        .bytes = {reinterpret_cast<const char*>(data.data()), data.size()},
                        .byte_offsets = byte_offsets.data(),
                        .values = byte_offsets.size() - 1};
    keep(std::move(data));
    keep(std::move(byte_offsets));
    add(std::move(key), column, per_row, std::move(row_offsets));
  }

  void add_nothing(std::string key) { add(std::move(key), EncodeColumn{.kind = ValueKind::kNone}, 0, {}); }

  nb::object encode() {
    set_keys();
    Buffer records, offsets;
    Fault fault;
    {
      nb::gil_scoped_release release;
      fault = encode_examples(columns_, rows_, records, offsets);
    }
    if (fault) return to_python(std::move(fault));
    return nb::make_tuple(give<uint8_t>(std::move(records)), give<uint64_t>(std::move(offsets)));
  }

  nb::object write_to(RecordSink& sink) {
    set_keys();
    Buffer frames;
    Fault fault;
    {
      nb::gil_scoped_release release;
      fault = encode_framed(columns_, rows_, frames);
      if (!fault) fault = sink.add_frames(std::move(frames), signalled);
    }
    raise_signalled();
    return to_python(std::move(fault));
  }

 private:
  // The keys' addresses are stable only when all are there.
  void set_keys() {
    for (size_t i = 0; i < columns_.size(); ++i) columns_[i].key = keys_[i];
  }

  template <class T>
  void keep(In<T>&& array) {
    arrays_.push_back(nb::ndarray<>(std::move(array)));
  }

  void add(std::string key, EncodeColumn column, size_t per_row, Offsets row_offsets) {
    column.per_row = per_row;
    if (row_offsets) {
      if (row_offsets->size() != rows_ + 1)
        throw nb::value_error("row_offsets must have one entry more than rows");
      column.row_offsets = row_offsets->data();
      keep(std::move(*row_offsets));
    }
    keys_.push_back(std::move(key));
    columns_.push_back(column);
  }

  size_t rows_;
  std::vector<std::string> keys_;
  std::vector<EncodeColumn> columns_;
  std::vector<nb::ndarray<>> arrays_;
};

nb::object parse_one_tensor(nb::bytes proto) {
  TensorView tensor;
  if (Fault fault = parse_tensor({static_cast<const uint8_t*>(proto.data()), proto.size()}, tensor)) {
    return to_python(std::move(fault));
  }
  nb::list shape;
  for (int64_t dim : tensor.dims) shape.append(dim);
  nb::object elements;
  if (tensor.dtype == kString) {
    nb::list strings;
    for (uint64_t i = 0; i < tensor.elements; ++i) {
      strings.append(nb::bytes(tensor.string(i).data(), tensor.string(i).size()));
    }
    elements = std::move(strings);
  } else {
    Buffer memory(tensor.size_bytes());
    {
      nb::gil_scoped_release release;
      fill(tensor, memory.data());
    }
    elements = give<uint8_t>(std::move(memory));
  }
  return nb::make_tuple(dtype_name(tensor.dtype), nb::tuple(shape), elements);
}

}  // namespace

void bind_encode(nb::module_& module) {
  if (_import_array() < 0) throw nb::python_error();

  module.def("encode_example", &encode_example, nb::arg("example"), nb::arg("convert"),
             "One tf.train.Example. A value of an unusual type is passed to convert(key, value), which gives "
             "it back "
             "as one of the usual: an array, a list, a number, a string.");

  nb::class_<ExampleEncoder>(module, "ExampleEncoder", "Columns -> tf.train.Examples, one for each row.")
      .def(nb::init<size_t>(), nb::arg("rows"))
      .def("add_numbers", &ExampleEncoder::add_numbers, nb::arg("key"), nb::arg("values").noconvert(),
           nb::arg("per_row"), nb::arg("row_offsets").none())
      .def("add_strings", &ExampleEncoder::add_strings, nb::arg("key"), nb::arg("data"),
           nb::arg("byte_offsets"), nb::arg("per_row"), nb::arg("row_offsets").none())
      .def("add_nothing", &ExampleEncoder::add_nothing, nb::arg("key"),
           "A feature without a kind in every row.")
      .def("encode", &ExampleEncoder::encode,
           "(records back to back, where each begins and the last ends), or a Fault.")
      .def("write_to", &ExampleEncoder::write_to, nb::arg("sink"), "Add the records. None, or a Fault.");

  module.def("parse_tensor", &parse_one_tensor, nb::arg("proto"),
             "(dtype, shape, memory or list of strings) of a serialized TensorProto, or a Fault.");
}

}  // namespace feedline::bind
