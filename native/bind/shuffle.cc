#include "core/shuffle.h"

#include <nanobind/stl/tuple.h>

#include "bind/arrays.h"
#include "bind/bind.h"

namespace feedline::bind {

namespace {

using Slots = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

auto draw_array(uint64_t key, uint64_t draws, const Slots& slots, int64_t filled, int64_t next, int64_t end,
                size_t count) {
  if (filled < 0 || static_cast<size_t>(filled) > slots.size())
    throw nb::value_error("filled: more than there are slots");
  ShuffleBuffer buffer{{slots.data(), slots.size()}, filled, next, end, draws};
  Buffer out;
  {
    nb::gil_scoped_release release;
    out = Buffer(count * sizeof(int64_t));
    out.resize(draw(key, buffer, {out.as<int64_t>(), count}) * sizeof(int64_t));
  }
  return nb::make_tuple(give<int64_t>(std::move(out)), buffer.filled, buffer.next);
}

}  // namespace

void bind_shuffle(nb::module_& module) {
  module.def(
      "draw", &draw_array, nb::arg("key"), nb::arg("draws"), nb::arg("slots"), nb::arg("filled"),
      nb::arg("next"), nb::arg("end"), nb::arg("count"),
      "Draw `count` numbers, fewer when the buffer is empty; each is replaced in `slots` by the next one "
      "before `end`. The numbers, and `filled` and `next` after them.");
}

}  // namespace feedline::bind
