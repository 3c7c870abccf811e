#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/compression.h"
#include "bind/faults.h"
#include "bind/file_pool.h"
#include "bind/flaws.h"
#include "core/block_reader.h"
#include "core/point_reader.h"
#include "core/read_ahead.h"
#include "core/small_files.h"
#include "core/tensor_proto.h"
#include "core/turn_reader.h"

namespace feedline::bind {

namespace {

Layout layout_from(const std::string& name) {
  if (name == "fixed") return Layout::kFixed;
  if (name == "varlen") return Layout::kVarLen;
  if (name == "steps") return Layout::kSteps;
  if (name == "raw") return Layout::kRaw;
  if (name == "tensor") return Layout::kTensor;
  throw std::invalid_argument("unknown layout: " + name);
}

ValueKind kind_from(const std::string& name) {
  if (name == "bytes") return ValueKind::kBytes;
  if (name == "float32") return ValueKind::kFloat;
  if (name == "int64") return ValueKind::kInt64;
  throw std::invalid_argument("unknown kind: " + name);
}

// How a column's memory becomes arrays.
struct ArrayPlan {
  nb::object dtype;            // of the data
  std::vector<int64_t> inner;  // the shape of one row, or of one step
  bool one_array;              // dense: no offsets
};

// The core's schema, and what Python needs besides.
class PySchema {
 public:
  void add(std::string name, std::string key, const std::string& layout, const std::string& kind,
           nb::object dtype, std::vector<int64_t> shape, bool required,
           std::optional<nb::bytes> default_numbers, std::optional<std::vector<nb::bytes>> default_strings,
           bool in_list) {
    Feature feature;
    feature.name = std::move(name);
    feature.key = std::move(key);
    feature.layout = layout_from(layout);
    feature.kind = kind_from(kind);
    feature.required = required;
    const bool strings = nb::cast<std::string>(dtype.attr("kind")) == "O";
    feature.item_size = strings ? 0 : nb::cast<size_t>(dtype.attr("itemsize"));
    bool one_shape = true;
    feature.count = 1;
    for (int64_t dim : shape) {
      one_shape = one_shape && dim >= 0;
      feature.count *= static_cast<size_t>(dim);
    }
    if (feature.layout == Layout::kTensor) {
      feature.tensor_dtype = strings ? kString : dtype_number(nb::cast<std::string>(dtype.attr("name")));
      feature.dims = shape;
    }
    if (default_numbers) {
      feature.has_default = true;
      const auto* data = static_cast<const uint8_t*>(default_numbers->data());
      feature.default_numbers.assign(data, data + default_numbers->size());
    }
    if (default_strings) {
      feature.has_default = true;
      for (const nb::bytes& text : *default_strings)
        feature.default_strings.emplace_back(text.c_str(), text.size());
    }
    const bool same_length =
        !in_list && (feature.layout == Layout::kFixed || feature.layout == Layout::kRaw ||
                     (feature.layout == Layout::kTensor && one_shape));
    // A tensor of changing shape has its dimensions apart; its data is flat.
    ArrayPlan plan{strings ? dtype_of<uint8_t>() : std::move(dtype), {}, same_length && !strings};
    if (plan.one_array || (feature.layout == Layout::kSteps && !strings)) plan.inner = std::move(shape);
    (in_list ? schema_->lists : schema_->features).push_back(std::move(feature));
    (in_list ? list_plans_ : plans_).push_back(std::move(plan));
  }

  // Records as they are, in one column of strings.
  void add_whole() {
    Feature record;
    record.kind = ValueKind::kBytes;
    schema_->whole = true;
    schema_->features.push_back(std::move(record));
    plans_.push_back({dtype_of<uint8_t>(), {}, false});
  }

  std::shared_ptr<const Schema> schema() const { return schema_; }

  // Of rows; nothing when features of changing size need columns.
  std::optional<RowLayout> layout() const { return RowLayout::of(*schema_); }

  nb::list arrays(size_t rows, std::vector<Column>&& columns) const {
    nb::list list;
    for (size_t i = 0; i < columns.size(); ++i) {
      const ArrayPlan& plan = i < plans_.size() ? plans_[i] : list_plans_[i - plans_.size()];
      list.append(to_python(plan, rows, std::move(columns[i])));
    }
    return list;
  }

 private:
  static nb::object to_python(const ArrayPlan& plan, size_t rows, Column&& column) {
    std::vector<int64_t> shape(1, static_cast<int64_t>(rows));
    shape.insert(shape.end(), plan.inner.begin(), plan.inner.end());
    if (plan.one_array) return give(std::move(column.data), plan.dtype, shape);
    size_t item = nb::cast<size_t>(plan.dtype.attr("itemsize"));
    for (int64_t dim : plan.inner) item *= static_cast<size_t>(dim);
    shape[0] = static_cast<int64_t>(column.data.size() / item);
    const auto offsets = [](Buffer&& buffer) {
      return buffer.size() == 0 ? nb::none() : give<int64_t>(std::move(buffer));
    };
    return nb::make_tuple(give(std::move(column.data), plan.dtype, shape), offsets(std::move(column.strings)),
                          offsets(std::move(column.steps)), offsets(std::move(column.rows)),
                          offsets(std::move(column.dims)));
  }

  std::shared_ptr<Schema> schema_ = std::make_shared<Schema>();
  std::vector<ArrayPlan> plans_;
  std::vector<ArrayPlan> list_plans_;
};

// Rows that the core keeps as it read them.
struct PyTable {
  std::shared_ptr<const RowTable> table;
};

nb::tuple block_to_python(const PySchema& schema, DecodedBlock&& block) {
  nb::object data = block.table ? nb::cast(PyTable{std::move(block.table)})
                                : schema.arrays(block.rows, std::move(block.columns));
  return nb::make_tuple(block.rows, data, to_python(std::move(block.skipped)),
                        to_python(std::move(block.fault)));
}

// Tables of one schema, out of which rows are picked. They are added under the GIL, and picked from without.
class PyTablePicker {
 public:
  explicit PyTablePicker(PySchema schema) : schema_(std::move(schema)) {
    std::optional<RowLayout> layout = schema_.layout();
    if (!layout) throw nb::value_error("rows of this schema have no fixed layout");
    layout_ = std::move(*layout);
  }

  void add(const PyTable& table) {
    if (tables_.use_count() > 1) tables_ = std::make_shared<Tables>(*tables_);
    tables_->push_back(table.table);
  }

  PyTablePicker only(const std::vector<size_t>& numbers) const {
    PyTablePicker some(schema_);
    for (const size_t number : numbers) some.tables_->push_back(tables_->at(number));
    return some;
  }

  nb::list pick(const In<int64_t>& picks) const {
    std::vector<Column> columns;
    use([&](auto tables) { return pick_columns(layout_, tables, view(picks), columns); });
    return schema_.arrays(picks.size(), std::move(columns));
  }

  PyTable copy(const In<int64_t>& picks) const {
    RowTable copied;
    use([&](auto tables) { return copy_rows(layout_, tables, view(picks), copied); });
    return {std::make_shared<const RowTable>(std::move(copied))};
  }

 private:
  using Tables = std::vector<std::shared_ptr<const RowTable>>;

  template <class Use>
  void use(Use use) const {
    const std::shared_ptr<const Tables> kept = tables_;
    Flaw flaw;
    {
      nb::gil_scoped_release release;
      std::vector<const RowTable*> tables;
      for (const auto& table : *kept) tables.push_back(table.get());
      flaw = use(std::span<const RowTable* const>(tables));
    }
    raise_if(flaw);
  }

  PySchema schema_;
  RowLayout layout_;
  std::shared_ptr<Tables> tables_ = std::make_shared<Tables>();
};

// Decodes records that are in memory. One call at a time uses the decoder, and what it has learned of the
// keys' order serves the next.
class PyDecoder {
 public:
  explicit PyDecoder(PySchema schema) : schema_(std::move(schema)), decoder_(schema_.schema()) {}

  nb::tuple decode(const nb::list& records) {
    std::vector<std::span<const uint8_t>> views;
    views.reserve(records.size());
    for (nb::handle record : records) {
      if (!nb::isinstance<nb::bytes>(record))
        throw nb::type_error("records must be bytes, or a list of bytes");
      const auto bytes = nb::borrow<nb::bytes>(record);  // `records` keeps it alive
      views.emplace_back(static_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
    DecodedBlock block;
    {
      nb::gil_scoped_release release;
      std::lock_guard lock(mutex_);
      decoder_.begin(views.size());
      for (size_t i = 0; i < views.size() && !block.fault; ++i) {
        if (decoder_.add(views[i])) continue;
        block.fault = std::move(decoder_.fault());
        block.fault.record = static_cast<int64_t>(i);
      }
      block.rows = decoder_.rows();
      block.columns = decoder_.finish();
    }
    return block_to_python(schema_, std::move(block));
  }

 private:
  PySchema schema_;
  std::mutex mutex_;
  ExampleDecoder decoder_;
};

std::vector<std::string> to_strings(const std::vector<nb::bytes>& names) {
  std::vector<std::string> strings;
  for (const nb::bytes& name : names) strings.emplace_back(name.c_str(), name.size());
  return strings;
}

nb::object to_python(const std::optional<Start>& place) {
  if (!place) return nb::none();
  return nb::make_tuple(place->file, place->offset, place->number);
}

// `Reader` is a BlockReader or a ReadAhead.
template <class Reader>
class PyReader {
 public:
  PyReader(const std::vector<nb::bytes>& files, PySchema schema, size_t rows, size_t threads, bool verify,
           bool skip, const std::string& compression, std::tuple<size_t, uint64_t, int64_t> start,
           size_t block_bytes, bool as_rows, const std::vector<PyFileBudget>& budgets)
      : schema_(std::move(schema)) {
    const Start from{std::get<0>(start), std::get<1>(start), std::get<2>(start)};
    const ReadOptions options{compression_from(compression),
                              rows,
                              threads,
                              verify,
                              skip,
                              &signalled,
                              from,
                              block_bytes,
                              as_rows ? schema_.layout() : std::nullopt,
                              to_core(budgets)};
    reader_ = std::make_unique<Reader>(to_strings(files), schema_.schema(), options);
  }
  ~PyReader() { close(); }

  nb::object next() {
    DecodedBlock block;
    while (reader_) {
      BlockReader::Outcome outcome;
      {
        nb::gil_scoped_release release;
        outcome = reader_->next(std::chrono::milliseconds(50), block);
      }
      raise_signalled();
      if (outcome == BlockReader::Outcome::kEnd) break;
      if (outcome == BlockReader::Outcome::kBlock) {
        const nb::object next = to_python(block.next), resume = to_python(block.resume);
        return nb::make_tuple(block_to_python(schema_, std::move(block)), next, resume);
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    return nb::none();
  }

  void close() {
    nb::gil_scoped_release release;
    reader_.reset();
  }

  static void bind(nb::module_& module, const char* name, const char* what) {
    nb::class_<PyReader>(module, name, what)
        .def(
            nb::init<const std::vector<nb::bytes>&, PySchema, size_t, size_t, bool, bool, const std::string&,
                     std::tuple<size_t, uint64_t, int64_t>, size_t, bool, const std::vector<PyFileBudget>&>(),
            nb::arg("files"), nb::arg("schema"), nb::arg("rows"), nb::arg("threads"), nb::arg("verify"),
            nb::arg("skip"), nb::arg("compression"), nb::arg("start"), nb::arg("block_bytes"),
            nb::arg("as_rows"), nb::arg("budgets") = std::vector<PyFileBudget>())
        .def(
            "next", &PyReader::next,
            "((rows, columns or RowTable, skipped, fault or None), where the records after these begin, "
            "where to go on after a fault), or None at the end. A place is file, offset and record, or None.")
        .def("close", &PyReader::close);
  }

 private:
  PySchema schema_;
  std::unique_ptr<Reader> reader_;
};

class PyTurnReader {
 public:
  using Entry = std::tuple<nb::bytes, std::tuple<size_t, uint64_t, int64_t>, uint64_t>;

  PyTurnReader(const std::vector<Entry>& files, PySchema schema, size_t rows, size_t turn, bool verify,
               const std::string& compression, size_t block_bytes, bool as_rows,
               const std::vector<PyFileBudget>& budgets)
      : schema_(std::move(schema)) {
    ReadOptions options;
    options.compression = compression_from(compression);
    options.rows = rows;
    options.verify = verify;
    options.block_bytes = block_bytes;
    if (as_rows) options.layout = schema_.layout();
    options.budgets = to_core(budgets);
    std::vector<TurnReader::Entry> entries;
    for (const auto& [path, place, drop] : files) {
      const Start start{std::get<0>(place), std::get<1>(place), std::get<2>(place)};
      entries.push_back({std::string(path.c_str(), path.size()), start, drop});
    }
    reader_ = std::make_unique<TurnReader>(std::move(entries), schema_.schema(), options, turn);
  }
  ~PyTurnReader() { close(); }

  nb::object next() {
    TurnReader::Block block;
    while (reader_) {
      BlockReader::Outcome outcome;
      {
        nb::gil_scoped_release release;
        outcome = reader_->next(std::chrono::milliseconds(50), block);
      }
      if (outcome == BlockReader::Outcome::kEnd) break;
      if (outcome == BlockReader::Outcome::kBlock) {
        nb::list places;
        for (const Start& place : block.places) places.append(to_python(std::optional(place)));
        return nb::make_tuple(block_to_python(schema_, std::move(block.decoded)), places);
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    return nb::none();
  }

  void close() {
    nb::gil_scoped_release release;
    reader_.reset();
  }

 private:
  PySchema schema_;
  std::unique_ptr<TurnReader> reader_;
};

class PySmallFiles {
 public:
  PySmallFiles(const std::vector<nb::bytes>& files, PySchema schema, bool verify,
               const std::string& compression, size_t block_bytes, bool as_rows,
               const std::vector<PyFileBudget>& budgets)
      : schema_(std::move(schema)) {
    ReadOptions options;
    options.compression = compression_from(compression);
    options.verify = verify;
    options.block_bytes = block_bytes;
    if (as_rows) options.layout = schema_.layout();
    options.budgets = to_core(budgets);
    files_ = std::make_unique<SmallFiles>(to_strings(files), schema_.schema(), options);
  }
  ~PySmallFiles() {
    nb::gil_scoped_release release;
    files_.reset();
  }

  nb::tuple take() {
    SmallFiles::Result result;
    {
      nb::gil_scoped_release release;
      result = files_->take();
    }
    nb::list rows;
    for (const std::optional<SmallFiles::Rows>& one : result.files)
      rows.append(one ? nb::object(nb::make_tuple(one->begin, one->end)) : nb::none());
    return nb::make_tuple(block_to_python(schema_, std::move(result.block)), rows);
  }

 private:
  PySchema schema_;
  std::unique_ptr<SmallFiles> files_;
};

// Records by their place, for random access.
class PyPointReader {
 public:
  PyPointReader(const std::vector<nb::bytes>& files, PySchema schema, bool verify)
      : schema_(std::move(schema)), reader_(to_strings(files), schema_.schema(), verify) {}

  nb::tuple read(const In<int64_t>& files, const In<uint64_t>& offsets, const In<uint64_t>& sizes,
                 const In<int64_t>& numbers, const std::vector<PyFileBudget>& budgets) {
    const size_t count = files.size();
    if (offsets.size() != count || sizes.size() != count || numbers.size() != count)
      throw nb::value_error("files, offsets, sizes and numbers must have one length");
    DecodedBlock block;
    {
      nb::gil_scoped_release release;
      std::vector<RecordPlace> places;
      places.reserve(count);
      for (size_t i = 0; i < count; ++i) {
        places.push_back(
            {static_cast<size_t>(files.data()[i]), offsets.data()[i], sizes.data()[i], numbers.data()[i]});
      }
      block = reader_.read(places, to_core(budgets), &signalled);
    }
    raise_signalled();
    return block_to_python(schema_, std::move(block));
  }

 private:
  PySchema schema_;
  PointReader reader_;
};

}  // namespace

void bind_decode(nb::module_& module) {
  nb::class_<PySchema>(module, "Schema", "The compiled form of `features`.")
      .def(nb::init<>())
      .def("add", &PySchema::add, nb::arg("name"), nb::arg("key"), nb::arg("layout"), nb::arg("kind"),
           nb::arg("dtype"), nb::arg("shape"), nb::arg("required"), nb::arg("default_numbers").none(),
           nb::arg("default_strings").none(), nb::arg("in_list"))
      .def("add_whole", &PySchema::add_whole, "Records as they are, in one column of strings.");

  nb::class_<PyDecoder>(module, "Decoder", "Examples in memory -> columns.")
      .def(nb::init<PySchema>(), nb::arg("schema"))
      .def("decode", &PyDecoder::decode, nb::arg("records"), "(rows, columns, [], fault or None)");

  nb::class_<PyTable>(module, "RowTable", "Rows as they were read; a TablePicker makes columns of them.")
      .def("__len__", [](const PyTable& table) { return table.table->rows; })
      .def_prop_ro("nbytes", [](const PyTable& table) { return table.table->bytes; });
  nb::class_<PyTablePicker>(module, "TablePicker", "RowTables of one schema, out of which rows are picked.")
      .def(nb::init<PySchema>(), nb::arg("schema"))
      .def("add", &PyTablePicker::add, nb::arg("table"))
      .def("only", &PyTablePicker::only, nb::arg("numbers"), "A picker of some of the tables.")
      .def("pick", &PyTablePicker::pick, nb::arg("picks"),
           "The columns of the picked rows. IndexError when one is not there.")
      .def("copy", &PyTablePicker::copy, nb::arg("picks"), "The same as a RowTable.");

  PyReader<BlockReader>::bind(module, "BlockReader", "TFRecord files -> columns, by `threads` threads.");
  nb::class_<PyTurnReader>(module, "TurnReader", "TFRecord files by turns -> columns.")
      .def(nb::init<const std::vector<PyTurnReader::Entry>&, PySchema, size_t, size_t, bool,
                    const std::string&, size_t, bool, const std::vector<PyFileBudget>&>(),
           nb::arg("files"), nb::arg("schema"), nb::arg("rows"), nb::arg("turn"), nb::arg("verify"),
           nb::arg("compression"), nb::arg("block_bytes"), nb::arg("as_rows"), nb::arg("budgets"))
      .def("next", &PyTurnReader::next,
           "((rows, columns or RowTable, [], None), where each file goes on), or None where it ends.")
      .def("close", &PyTurnReader::close);
  nb::class_<PySmallFiles>(module, "SmallFiles", "Small TFRecord files -> one block, made ahead.")
      .def(nb::init<const std::vector<nb::bytes>&, PySchema, bool, const std::string&, size_t, bool,
                    const std::vector<PyFileBudget>&>(),
           nb::arg("files"), nb::arg("schema"), nb::arg("verify"), nb::arg("compression"),
           nb::arg("block_bytes"), nb::arg("as_rows"), nb::arg("budgets"))
      .def("take", &PySmallFiles::take,
           "((rows, columns or RowTable, [], None), (begin, end) or None for each file), once.");
  nb::class_<PyPointReader>(module, "PointReader", "Single records of plain files -> columns.")
      .def(nb::init<const std::vector<nb::bytes>&, PySchema, bool>(), nb::arg("files"), nb::arg("schema"),
           nb::arg("verify"))
      .def("read", &PyPointReader::read, nb::arg("files"), nb::arg("offsets"), nb::arg("sizes"),
           nb::arg("numbers"), nb::arg("budgets") = std::vector<PyFileBudget>(),
           "(rows, columns, [], fault or None)");
  PyReader<ReadAhead>::bind(
      module, "ReadAhead", "The same for many readers at once: one block ahead, by threads that they share.");
}

}  // namespace feedline::bind
