#include "core/shuffle.h"

#include <nanobind/stl/tuple.h>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/flaws.h"

namespace feedline::bind {

namespace {

using Slots = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

ShuffleBuffer buffer_of(uint64_t draws, const Slots& slots, int64_t filled, int64_t next, int64_t end) {
  if (filled < 0 || static_cast<size_t>(filled) > slots.size())
    throw nb::value_error("filled: more than there are slots");
  return {{slots.data(), slots.size()}, filled, next, end, draws};
}

auto draw_array(uint64_t key, uint64_t draws, const Slots& slots, int64_t filled, int64_t next, int64_t end,
                size_t count) {
  ShuffleBuffer buffer = buffer_of(draws, slots, filled, next, end);
  Buffer out;
  {
    nb::gil_scoped_release release;
    out = Buffer(count * sizeof(int64_t));
    out.resize(draw(key, buffer, {out.as<int64_t>(), count}) * sizeof(int64_t));
  }
  return nb::make_tuple(give<int64_t>(std::move(out)), buffer.filled, buffer.next);
}

auto draw_values_array(uint64_t key, uint64_t draws, const Slots& slots, int64_t filled, int64_t next,
                       int64_t end, size_t count, const In<int64_t>& values) {
  ShuffleBuffer buffer = buffer_of(draws, slots, filled, next, end);
  Buffer out;
  Flaw flaw;
  {
    nb::gil_scoped_release release;
    out = Buffer(count * sizeof(int64_t));
    size_t drawn = 0;
    flaw = draw_values(key, buffer, view(values), {out.as<int64_t>(), count}, drawn);
    out.resize(drawn * sizeof(int64_t));
  }
  raise_if(flaw, static_cast<int64_t>(values.size()));
  return nb::make_tuple(give<int64_t>(std::move(out)), buffer.filled, buffer.next);
}

}  // namespace

void bind_shuffle(nb::module_& module) {
  module.def(
      "draw", &draw_array, nb::arg("key"), nb::arg("draws"), nb::arg("slots"), nb::arg("filled"),
      nb::arg("next"), nb::arg("end"), nb::arg("count"),
      "Draw `count` numbers, fewer when the buffer is empty; each is replaced in `slots` by the next one "
      "before `end`. The numbers, and `filled` and `next` after them.");
  module.def("draw_values", &draw_values_array, nb::arg("key"), nb::arg("draws"), nb::arg("slots"),
             nb::arg("filled"), nb::arg("next"), nb::arg("end"), nb::arg("count"), nb::arg("values"),
             "The same with values[number] in place of each number.");
}

}  // namespace feedline::bind
