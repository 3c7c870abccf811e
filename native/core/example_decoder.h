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

// Where the features of an Example lie.
class ExampleScanner {
 public:
  explicit ExampleScanner(const Schema& schema)
      : features_(schema.features), lists_(schema.lists), has_lists_(!schema.lists.empty()) {}

  // Returns what is wrong, or nullptr. What the last scan found is forgotten.
  const char* scan(std::span<const uint8_t> record);
  // The schema's feature or list `index`, or nullptr when the record does not have it.
  const wire::Cursor* feature(size_t index) const noexcept { return features_.find(index); }
  const wire::Cursor* list(size_t index) const noexcept { return lists_.find(index); }

 private:
  KeyedFields features_;
  KeyedFields lists_;
  bool has_lists_;
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

  std::shared_ptr<const Schema> schema_;
  ExampleScanner scanner_;
  std::vector<ColumnBuilder> columns_;
  size_t rows_ = 0;
  Fault fault_;
};

}  // namespace feedline
