// Records as rows of one size, for a pipeline that picks rows out of many blocks, as interleave and shuffle
// do.
//
// Small values lie in the row. Large ones, and strings, stay in the chunk that was read, and the row says
// where: so they are copied once, when the row is picked, and the small ones with one walk over the row
// instead of a walk over each column.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/column.h"
#include "core/example_decoder.h"
#include "core/fault.h"
#include "core/fixed_numbers.h"
#include "core/pick.h"
#include "core/schema.h"

namespace feedline {

struct RowField {
  enum class Kind : uint8_t {
    kNear,    // the value
    kFar,     // a pointer to it
    kString,  // a FarString
  };
  Kind kind = Kind::kNear;
  size_t offset = 0;  // in the row
  size_t bytes = 0;   // of the value
};

struct FarString {
  const uint8_t* data;
  size_t size;
};

struct RowLayout {
  std::vector<RowField> fields;  // one for each of the schema's features
  size_t stride = 0;

  // Of a row's columns, without strings.
  size_t column_bytes() const noexcept;

  // Nothing when a feature's size may change from row to row, except that of a single string.
  static std::optional<RowLayout> of(const Schema& schema);
};

struct RowTable {
  size_t rows = 0;
  size_t bytes = 0;                                   // of the records, or of their columns if that is more
  Buffer data;                                        // rows * stride
  std::vector<std::shared_ptr<const Buffer>> chunks;  // what the rows point into

  const uint8_t* row(size_t index, const RowLayout& layout) const noexcept {
    return data.data() + index * layout.stride;
  }
};

// As ExampleDecoder, with a RowTable for a result. What it is given must stay: the caller adds it to
// `chunks`.
class RowDecoder {
 public:
  RowDecoder(std::shared_ptr<const Schema> schema, RowLayout layout);

  void begin(size_t max_rows);
  bool add(std::span<const uint8_t> record);
  Fault& fault() noexcept { return fault_; }
  size_t rows() const noexcept { return table_.rows; }
  RowTable finish();

 private:
  bool place_row(std::span<const uint8_t> record, uint8_t* row);
  // The short ways; false when the feature is written otherwise.
  bool place(size_t index, const wire::Cursor& feature, uint8_t* out) const noexcept;
  // Any way; `feature` may be nullptr.
  bool place_any(size_t index, const wire::Cursor* feature, uint8_t* out);

  std::shared_ptr<const Schema> schema_;
  const RowLayout layout_;
  ExampleScanner scanner_;
  std::vector<FixedNumbers> numbers_;
  std::vector<ColumnBuilder> builders_;  // for what the short ways do not take
  RowTable table_;
  Fault fault_;
};

// The columns of picked rows. All tables have the layout. Throws std::bad_alloc.
Flaw pick_columns(const RowLayout& layout, std::span<const RowTable* const> tables,
                  std::span<const int64_t> picks, std::vector<Column>& columns);

// The picked rows in a table of their own, with all that they point to. Throws std::bad_alloc.
Flaw copy_rows(const RowLayout& layout, std::span<const RowTable* const> tables,
               std::span<const int64_t> picks, RowTable& copy);

}  // namespace feedline
