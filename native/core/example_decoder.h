// tf.train.Example and tf.train.SequenceExample -> columns.
//
// Records of one writer hold their features in the same order. The decoder expects each record's keys in the
// order of the record before it, and looks a key up only where that fails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/column.h"
#include "core/fault.h"
#include "core/schema.h"
#include "core/wire.h"

namespace feedline {

// The entries of a protobuf map<string, Message>, of which some keys are wanted.
class KeyedFields {
 public:
  explicit KeyedFields(const std::vector<Feature>& features);

  // Notes where the value of each wanted key lies. The last of equal keys wins, also over earlier calls since
  // `clear`, as protobuf merges maps. Returns what is wrong, or nullptr.
  const char* scan(wire::Cursor map);
  void clear() noexcept { ++record_; }

  // The value for `features[index]`, or nullptr.
  const wire::Cursor* find(size_t index) const noexcept {
    const Slot& slot = slots_[slot_of_[index]];
    return slot.record == record_ ? &slot.value : nullptr;
  }

 private:
  struct Slot {
    wire::Cursor value;
    uint64_t record = 0;
  };
  struct Expected {
    std::string prefix;  // the bytes of the entry up to its value's length
    uint64_t head = 0;   // its first eight bytes, or all of them and zeros
    uint64_t mask = 0;   // which bytes of `head` count
    int slot = kUnwanted;

    bool begins(const wire::Cursor& entry) const noexcept;
  };
  static constexpr int kUnwanted = -1;

  const char* scan_entry(wire::Cursor entry, wire::Cursor& value, Expected& learned) const;

  std::unordered_map<std::string_view, int> slots_by_key_;
  std::vector<size_t> slot_of_;
  std::vector<Slot> slots_;
  std::vector<Expected> expected_;
  Expected unexpected_;  // for positions beyond those that are remembered
  uint64_t record_ = 1;
};

class ExampleDecoder {
 public:
  explicit ExampleDecoder(std::shared_ptr<const Schema> schema);

  void begin(size_t max_rows);
  // Adds one record as a row. When it cannot, `fault()` says why, knowing the feature but not the record, and
  // there is no such row.
  bool add(std::span<const uint8_t> record);
  Fault& fault() noexcept { return fault_; }
  size_t rows() const noexcept { return rows_; }
  // One column for each of the schema's features, then for each of its lists.
  std::vector<Column> finish();

 private:
  bool add_row(std::span<const uint8_t> record);
  bool malformed(const char* what);

  std::shared_ptr<const Schema> schema_;
  KeyedFields features_;
  KeyedFields lists_;
  std::vector<ColumnBuilder> columns_;
  size_t rows_ = 0;
  Fault fault_;
};

}  // namespace feedline
