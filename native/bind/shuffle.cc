#include "core/shuffle.h"

#include <nanobind/stl/tuple.h>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/flaws.h"
#include "core/places.h"

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

void add_places(Places& places, const In<int64_t>& sources, const In<int64_t>& rows) {
  if (sources.size() != rows.size()) throw nb::value_error("sources and rows must have one length");
  raise_if(places.add(view(sources), view(rows)), int64_t{1} << 32);
}

auto find_places(const Places& places, const In<int64_t>& wanted) {
  Buffer sources(wanted.size() * sizeof(int64_t)), rows(wanted.size() * sizeof(int64_t));
  const Flaw flaw = places.find(view(wanted), sources.as<int64_t>(), rows.as<int64_t>());
  raise_if(flaw, static_cast<int64_t>(places.size()));
  return nb::make_tuple(give<int64_t>(std::move(sources)), give<int64_t>(std::move(rows)));
}

}  // namespace

void bind_shuffle(nb::module_& module) {
  nb::class_<Places>(module, "Places", "Where rows lie that came one after another.")
      .def(nb::init<>())
      .def("__len__", &Places::size)
      .def("add", &add_places, nb::arg("sources"), nb::arg("rows"))
      .def(
          "add_all",
          [](Places& places, int64_t source, int64_t rows) {
            raise_if(places.add_all(source, rows), int64_t{1} << 32);
          },
          nb::arg("source"), nb::arg("rows"), "The first rows of one source.")
      .def("find", &find_places, nb::arg("places"), "The source and the row of each place.");
  module.def(
      "draw", &draw_array, nb::arg("key"), nb::arg("draws"), nb::arg("slots"), nb::arg("filled"),
      nb::arg("next"), nb::arg("end"), nb::arg("count"),
      "Draw `count` numbers, fewer when the buffer is empty; each is replaced in `slots` by the next one "
      "before `end`. The numbers, and `filled` and `next` after them.");
}

}  // namespace feedline::bind
