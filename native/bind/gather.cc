#include "core/gather.h"

#include <nanobind/stl/vector.h>

#include <vector>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/flaws.h"

namespace feedline::bind {

namespace {

using Table = nb::ndarray<const uint8_t, nb::ndim<2>, nb::device::cpu>;

Ranges ranges_of(const In<int64_t>& offsets, int64_t values) {
  if (offsets.size() == 0) throw nb::value_error("offsets: there must be one at least");
  return {view(offsets), values};
}

int64_t rows_of(const Ranges& ranges) { return static_cast<int64_t>(ranges.offsets.size()) - 1; }

Rows rows_in(const Table& table) {
  const Rows rows{table.data(), static_cast<int64_t>(table.shape(0)), static_cast<ptrdiff_t>(table.stride(0)),
                  table.shape(1)};
  if (rows.count > 0 && rows.bytes > 1 && table.stride(1) != 1)
    throw nb::value_error("the bytes of a row must be adjacent");
  return rows;
}

auto gather_rows_array(const Table& table, const In<int64_t>& indices) {
  const Rows rows = rows_in(table);
  Buffer out;
  Flaw flaw;
  {
    nb::gil_scoped_release release;
    out = Buffer(indices.size() * rows.bytes);
    flaw = gather_rows(rows, view(indices), out.data());
  }
  raise_if(flaw, rows.count);
  return give<uint8_t>(std::move(out));
}

auto gather_ranges_arrays(const Bytes& data, int64_t unit, const In<int64_t>& offsets,
                          const In<int64_t>& indices) {
  if (unit < 1) throw nb::value_error("unit: must be 1 or more");
  const Ranges ranges = ranges_of(offsets, static_cast<int64_t>(data.size()) / unit);
  Buffer taken;
  Buffer lengths;
  Flaw flaw;
  {
    nb::gil_scoped_release release;
    flaw = gather_offsets(ranges, view(indices), lengths);
    if (!flaw) {
      flaw = gather_values(view(data), static_cast<size_t>(unit), ranges, view(indices),
                           {lengths.as<int64_t>(), indices.size() + 1}, taken);
    }
  }
  raise_if(flaw, rows_of(ranges));
  return nb::make_tuple(give<uint8_t>(std::move(taken)), give<int64_t>(std::move(lengths)));
}

auto gather_positions_arrays(int64_t values, const In<int64_t>& offsets, const In<int64_t>& indices) {
  const Ranges ranges = ranges_of(offsets, values);
  Buffer taken;
  Buffer lengths;
  Flaw flaw;
  {
    nb::gil_scoped_release release;
    flaw = gather_offsets(ranges, view(indices), lengths);
    if (!flaw) {
      flaw = gather_positions(ranges, view(indices), {lengths.as<int64_t>(), indices.size() + 1}, taken);
    }
  }
  raise_if(flaw, rows_of(ranges));
  return nb::make_tuple(give<int64_t>(std::move(taken)), give<int64_t>(std::move(lengths)));
}

auto join_offset_arrays(const std::vector<In<int64_t>>& arrays) {
  std::vector<std::span<const int64_t>> parts;
  for (const auto& array : arrays) parts.push_back(view(array));
  Buffer joined;
  {
    nb::gil_scoped_release release;
    joined = join_offsets(parts);
  }
  return give<int64_t>(std::move(joined));
}

int64_t first_fall_array(const In<int64_t>& offsets) {
  nb::gil_scoped_release release;
  return first_fall(view(offsets));
}

// Makes Python objects, so it keeps the GIL.
nb::list byte_strings(const Bytes& data, const In<int64_t>& offsets) {
  nb::list strings;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const int64_t begin = offsets.data()[i];
    const int64_t end = offsets.data()[i + 1];
    if (begin < 0 || end < begin || end > static_cast<int64_t>(data.size())) {
      raise_if({Flaw::Kind::kOffset, static_cast<int64_t>(i) + 1, end}, 0);
    }
    strings.append(nb::bytes(data.data() + begin, static_cast<size_t>(end - begin)));
  }
  return strings;
}

}  // namespace

void bind_gather(nb::module_& module) {
  module.def("gather_rows", &gather_rows_array, nb::arg("table"), nb::arg("indices"),
             "The rows of a table of bytes at `indices`, end to end. IndexError when one is outside.");
  module.def(
      "gather_ranges", &gather_ranges_arrays, nb::arg("data"), nb::arg("unit"), nb::arg("offsets"),
      nb::arg("indices"),
      "The ragged rows at `indices`, end to end, and their offsets; a value is `unit` bytes of `data`.");
  module.def("gather_positions", &gather_positions_arrays, nb::arg("values"), nb::arg("offsets"),
             nb::arg("indices"),
             "The positions of the values of the ragged rows at `indices`, and their offsets.");
  module.def("join_offsets", &join_offset_arrays, nb::arg("parts"),
             "The offsets of ragged columns laid end to end, from 0.");
  module.def("first_fall", &first_fall_array, nb::arg("offsets"),
             "The position of the first offset that is less than the one before it, or -1.");
  module.def("byte_strings", &byte_strings, nb::arg("data"), nb::arg("offsets"),
             "The bytes objects between each two neighbouring offsets.");
}

}  // namespace feedline::bind
