#include "bind/arrays.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace feedline::bind {

namespace {

// NumPy allocates when it is given no memory; an empty array points here instead.
alignas(kAlignment) uint8_t nothing[kAlignment];

nb::object builtin_dtype(int number) {
  return nb::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(number)));
}

PyArrayObject* as_array(nb::handle array) {
  if (!PyArray_Check(array.ptr())) throw nb::type_error("an array is needed");
  return reinterpret_cast<PyArrayObject*>(array.ptr());
}

// Are the bytes of each row adjacent?
bool rows_are_whole(PyArrayObject* array) {
  npy_intp step = PyArray_ITEMSIZE(array);
  for (int axis = PyArray_NDIM(array) - 1; axis > 0; --axis) {
    if (PyArray_DIM(array, axis) != 1 && PyArray_STRIDE(array, axis) != step) return false;
    step *= PyArray_DIM(array, axis);
  }
  return true;
}

}  // namespace

void import_numpy() {
  if (_import_array() < 0) throw nb::python_error();
}

nb::object give(Buffer&& buffer, nb::handle dtype, std::span<const int64_t> shape) {
  auto* descr = reinterpret_cast<PyArray_Descr*>(dtype.ptr());
  std::vector<npy_intp> dims(shape.begin(), shape.end());
  size_t bytes = static_cast<size_t>(PyDataType_ELSIZE(descr));
  for (npy_intp dim : dims) bytes *= static_cast<size_t>(dim);
  if (bytes != buffer.size()) throw std::logic_error("a column's memory does not fit its shape");

  nb::object owner;
  uint8_t* data = nothing;
  if (buffer.size() != 0) {
    auto* owned = new Buffer(std::move(buffer));
    owner = nb::capsule(owned, [](void* held) noexcept { delete static_cast<Buffer*>(held); });
    data = owned->data();
  }
  Py_INCREF(descr);  // PyArray_NewFromDescr takes a reference
  nb::object array = nb::steal(PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(dims.size()),
                                                    dims.data(), nullptr, data, NPY_ARRAY_CARRAY, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  if (owner.is_valid()) {
    PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.ptr()), owner.release().ptr());
  }
  return array;
}

bool is_aligned(nb::handle array) {
  auto* const checked = as_array(array);
  return PyArray_IS_C_CONTIGUOUS(checked) &&
         reinterpret_cast<uintptr_t>(PyArray_DATA(checked)) % kAlignment == 0;
}

Rows rows_in(nb::object& array) {
  auto* rows = as_array(array);
  const int dims = PyArray_NDIM(rows);
  if (dims == 0 || PyDataType_REFCHK(PyArray_DESCR(rows)))
    throw nb::type_error("an array with a first axis, and not of objects, is needed");
  if (!rows_are_whole(rows)) {
    array = nb::steal(PyArray_NewCopy(rows, NPY_CORDER));
    if (!array.is_valid()) throw nb::python_error();
    rows = as_array(array);
  }
  auto bytes = static_cast<size_t>(PyArray_ITEMSIZE(rows));
  for (int axis = 1; axis < dims; ++axis) bytes *= static_cast<size_t>(PyArray_DIM(rows, axis));
  return {static_cast<const uint8_t*>(PyArray_DATA(rows)), PyArray_DIM(rows, 0), PyArray_STRIDE(rows, 0),
          bytes};
}

RowKind row_kind(nb::handle array) {
  auto* const rows = as_array(array);
  const npy_intp* const dims = PyArray_DIMS(rows);
  return {nb::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(rows))),
          {dims + 1, dims + PyArray_NDIM(rows)}};
}

template <>
nb::object dtype_of<uint8_t>() {
  return builtin_dtype(NPY_UINT8);
}

template <>
nb::object dtype_of<int64_t>() {
  return builtin_dtype(NPY_INT64);
}

template <>
nb::object dtype_of<uint64_t>() {
  return builtin_dtype(NPY_UINT64);
}

}  // namespace feedline::bind
