#include "core/pick.h"

#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/flaws.h"

namespace feedline::bind {

namespace {

// Sources are added under the GIL, and picked from without it. What a pick began with must stay as it is, so
// it is copied when something is added meanwhile.
template <class Sources>
Sources& to_change(std::shared_ptr<Sources>& sources) {
  if (sources.use_count() > 1) sources = std::make_shared<Sources>(*sources);
  return *sources;
}

auto renumbered(const In<int64_t>& picks, const In<int64_t>& numbers) {
  Buffer out(picks.size() * sizeof(int64_t));
  raise_if(renumber(view(picks), view(numbers), out.as<int64_t>()));
  return give<int64_t>(std::move(out));
}

struct DenseBlocks {
  std::vector<int64_t> counts;
  std::vector<std::vector<Rows>> columns;  // of each, the rows in every block
  std::vector<nb::list> kept;              // the arrays that they lie in
};

// Columns that are being copied by threads of the core.
class BegunRows {
 public:
  BegunRows(std::shared_ptr<const DenseBlocks> blocks, std::vector<RowKind> kinds, In<int64_t> picks)
      : blocks_(std::move(blocks)), kinds_(std::move(kinds)), picks_(std::move(picks)) {
    std::vector<PickedRows> columns;
    for (const auto& column : blocks_->columns) {
      const size_t bytes = column.empty() ? 0 : column[0].bytes;
      buffers_.emplace_back(picks_.size() * bytes);
      columns.push_back({column, bytes, buffers_.back().data()});
    }
    copying_ = pick_rows(std::move(columns), {blocks_->counts, view(picks_)});
  }

  // May be called again, by several threads too.
  nb::list finish() {
    Flaw flaw;
    {
      nb::gil_scoped_release release;
      flaw = copying_->finish();
    }
    raise_if(flaw);
    if (!columns_) {
      nb::list columns;
      for (size_t i = 0; i < buffers_.size(); ++i) {
        std::vector<int64_t> shape(1, static_cast<int64_t>(picks_.size()));
        shape.insert(shape.end(), kinds_[i].shape.begin(), kinds_[i].shape.end());
        columns.append(give(std::move(buffers_[i]), kinds_[i].dtype, shape));
      }
      columns_ = std::move(columns);
    }
    return *columns_;
  }

 private:
  std::shared_ptr<const DenseBlocks> blocks_;
  std::vector<RowKind> kinds_;
  In<int64_t> picks_;
  std::vector<Buffer> buffers_;
  std::optional<nb::list> columns_;
  std::unique_ptr<SharedPicks> copying_;  // the last, because it uses the others
};

// Dense columns of several blocks. All blocks have as many, and each is of one dtype and shape throughout.
class RowPicker {
 public:
  void add(const nb::sequence& arrays) {
    DenseBlocks& blocks = to_change(blocks_);
    if (blocks.counts.empty()) {
      kinds_.clear();
      for (nb::handle array : arrays) kinds_.push_back(row_kind(array));
      blocks.columns.resize(kinds_.size());
    }
    if (nb::len(arrays) != kinds_.size()) throw nb::value_error("all blocks must have as many columns");
    std::vector<Rows> added;
    nb::list kept;
    for (nb::handle array : arrays) {
      nb::object lies_in = nb::borrow(array);
      added.push_back(rows_in(lies_in));
      kept.append(lies_in);
      const auto& column = blocks.columns[added.size() - 1];
      if (added.back().count != added[0].count || (!column.empty() && column[0].bytes != added.back().bytes))
        throw nb::value_error("the columns of a block must have one length, and their rows one size");
    }
    blocks.counts.push_back(added.empty() ? 0 : added[0].count);
    for (size_t i = 0; i < added.size(); ++i) blocks.columns[i].push_back(added[i]);
    blocks.kept.push_back(std::move(kept));
  }

  RowPicker only(const std::vector<size_t>& numbers) const {
    RowPicker some;
    some.kinds_ = kinds_;
    DenseBlocks& chosen = *some.blocks_;
    chosen.columns.resize(blocks_->columns.size());
    for (const size_t number : numbers) {
      chosen.counts.push_back(blocks_->counts.at(number));
      chosen.kept.push_back(blocks_->kept.at(number));
    }
    for (size_t column = 0; column < chosen.columns.size(); ++column) {
      for (const size_t number : numbers) chosen.columns[column].push_back(blocks_->columns[column][number]);
    }
    return some;
  }

  std::unique_ptr<BegunRows> begin(const In<int64_t>& picks) const {
    return std::make_unique<BegunRows>(blocks_, kinds_, picks);
  }

  nb::list pick(const In<int64_t>& picks) const { return begin(picks)->finish(); }

 private:
  std::vector<RowKind> kinds_;
  std::shared_ptr<DenseBlocks> blocks_ = std::make_shared<DenseBlocks>();
};

// One ragged column of several blocks: items of `unit` bytes, and where each row of them begins.
class RangePicker {
 public:
  explicit RangePicker(int64_t unit) : unit_(static_cast<size_t>(unit)) {
    if (unit < 1) throw nb::value_error("unit: must be 1 or more");
  }

  void add(const Bytes& data, const In<int64_t>& offsets) {
    if (offsets.size() == 0) throw nb::value_error("offsets: there must be one at least");
    Blocks& blocks = to_change(blocks_);
    blocks.counts.push_back(static_cast<int64_t>(offsets.size()) - 1);
    blocks.ranges.push_back({view(data), view(offsets)});
    blocks.kept.emplace_back(data, offsets);
  }

  RangePicker only(const std::vector<size_t>& numbers) const {
    RangePicker some(static_cast<int64_t>(unit_));
    for (const size_t number : numbers) {
      some.blocks_->counts.push_back(blocks_->counts.at(number));
      some.blocks_->ranges.push_back(blocks_->ranges.at(number));
      some.blocks_->kept.push_back(blocks_->kept.at(number));
    }
    return some;
  }

  nb::tuple pick(const In<int64_t>& picks) const {
    const std::shared_ptr<const Blocks> blocks = blocks_;
    Buffer data, offsets;
    Flaw flaw;
    {
      nb::gil_scoped_release release;
      flaw = pick_ranges(blocks->ranges, unit_, {blocks->counts, view(picks)}, data, offsets);
    }
    raise_if(flaw);
    return nb::make_tuple(give<uint8_t>(std::move(data)), give<int64_t>(std::move(offsets)));
  }

 private:
  struct Blocks {
    std::vector<int64_t> counts;
    std::vector<RangeSource> ranges;
    std::vector<std::pair<Bytes, In<int64_t>>> kept;
  };

  size_t unit_;
  std::shared_ptr<Blocks> blocks_ = std::make_shared<Blocks>();
};

}  // namespace

void bind_pick(nb::module_& module) {
  nb::class_<BegunRows>(module, "BegunRows", "Columns that are being copied.")
      .def("finish", &BegunRows::finish, "The columns. IndexError when a row is not there.");
  nb::class_<RowPicker>(module, "RowPicker", "Blocks of dense columns, out of which rows are picked.")
      .def(nb::init<>())
      .def("add", &RowPicker::add, nb::arg("columns"))
      .def("only", &RowPicker::only, nb::arg("numbers"), "A picker of some of the blocks.")
      .def("begin", &RowPicker::begin, nb::arg("picks"), "Begin to copy the picked rows.")
      .def("pick", &RowPicker::pick, nb::arg("picks"), "The columns of the picked rows.");
  nb::class_<RangePicker>(module, "RangePicker", "Blocks of one ragged column, out of which rows are picked.")
      .def(nb::init<int64_t>(), nb::arg("unit"))
      .def("add", &RangePicker::add, nb::arg("data"), nb::arg("offsets"))
      .def("only", &RangePicker::only, nb::arg("numbers"), "A picker of some of the blocks.")
      .def("pick", &RangePicker::pick, nb::arg("picks"),
           "The values of the picked rows, end to end, and their offsets.");
  module.def("renumber", &renumbered, nb::arg("picks"), nb::arg("numbers"),
             "The picks, with source i numbered numbers[i].");
}

}  // namespace feedline::bind
