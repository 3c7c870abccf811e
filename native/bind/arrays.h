// Core memory <-> NumPy arrays, without copies.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/gather.h"

namespace feedline::bind {

namespace nb = nanobind;

// A C-contiguous array that the caller passes in; it is never copied, so another layout is a TypeError.
template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = In<uint8_t>;

template <class T>
std::span<const T> view(const In<T>& array) {
  return {array.data(), array.size()};
}

// Loads NumPy's C interface; once, when the module is.
void import_numpy();

// Gives the buffer to an array of that dtype (a numpy.dtype) and shape, which must fit it exactly. The memory
// returns to the pool when the array and its views are gone. NumPy's own interface makes an array in one
// call, and a batch may have a hundred columns.
nb::object give(Buffer&& buffer, nb::handle dtype, std::span<const int64_t> shape);

// Would a framework take the array as it is: C-contiguous, on a 64-byte boundary?
bool is_aligned(nb::handle array);

// The rows of an array of any dtype but objects. `array` becomes what they lie in: a copy, when the bytes of
// a row are not adjacent. TypeError when there is no first axis.
Rows rows_in(nb::object& array);

// What the arrays of rows that were picked out of this one have in common with it.
struct RowKind {
  nb::object dtype;
  std::vector<int64_t> shape;  // of a row
};
RowKind row_kind(nb::handle array);

template <class T>
nb::object dtype_of();

// One-dimensional.
template <class T>
nb::object give(Buffer&& buffer) {
  const int64_t shape[1] = {static_cast<int64_t>(buffer.size() / sizeof(T))};
  return give(std::move(buffer), dtype_of<T>(), shape);
}

}  // namespace feedline::bind
