// Core memory <-> NumPy arrays, without copies.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <span>

#include "core/buffer.h"

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

// Gives the buffer to a one-dimensional array of T; the memory returns to the pool when the array and its
// views are gone.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> give(Buffer&& buffer) {
  auto* owned = new Buffer(std::move(buffer));
  nb::capsule owner(owned, [](void* held) noexcept { delete static_cast<Buffer*>(held); });
  const size_t shape[1] = {owned->size() / sizeof(T)};
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), 1, shape, owner);
}

}  // namespace feedline::bind
