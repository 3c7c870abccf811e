// The short way to the values of a Feature with a fixed number of numbers. Nearly all features are like that,
// and nearly all writers pack them into one list. Whatever is written otherwise is left to FeatureValues.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/schema.h"
#include "core/wire.h"

namespace feedline {

class FixedNumbers {
 public:
  FixedNumbers(const Feature& feature, bool in_list)
      : list_tag_(!in_list && feature.layout == Layout::kFixed && feature.count * feature.item_size != 0
                      ? static_cast<uint8_t>(wire::tag(static_cast<uint32_t>(feature.kind), wire::kDelimited))
                      : 0),
        floats_(feature.kind == ValueKind::kFloat),
        row_bytes_(feature.count * feature.item_size) {}

  bool apply() const noexcept { return list_tag_ != 0; }

  // The packed list, which holds row_bytes of floats or any varints. False when it is not the only thing.
  bool find(wire::Cursor feature, wire::Cursor& values) const noexcept {
    // Feature: tag, size | list: tag, size | values. Both sizes must reach exactly to the end.
    constexpr uint32_t kValues = wire::tag(1, wire::kDelimited);
    const size_t size = feature.left();
    if (size >= 4 && size < 0x80) {
      // Then each tag and size is one byte, and all four are compared at once.
      uint32_t head = 0;
      std::memcpy(&head, feature.at, sizeof head);
      const auto short_size = static_cast<uint32_t>(size);
      if (head != (list_tag_ | (short_size - 2) << 8 | kValues << 16 | (short_size - 4) << 24)) return false;
      values = wire::Cursor(feature.at + 4, size - 4);
    } else {
      wire::Cursor list;
      if (size < 4 || *feature.at != list_tag_) return false;
      ++feature.at;
      if (!wire::read_delimited(feature, list) || !feature.done()) return false;
      if (list.done() || *list.at != kValues) return false;
      ++list.at;
      if (!wire::read_delimited(list, values) || !list.done()) return false;
    }
    return !floats_ || values.left() == row_bytes_;
  }

  // Writes the row's numbers, of which there must be as many as the feature has, to `out`.
  bool read(wire::Cursor feature, uint8_t* out) const noexcept {
    wire::Cursor values;
    if (!find(feature, values)) return false;
    if (floats_) {
      std::memcpy(out, values.at, row_bytes_);
      return true;
    }
    uint64_t value = 0;
    if (row_bytes_ == sizeof value && wire::read_whole_varint(values, value)) {
      std::memcpy(out, &value, sizeof value);
      return true;
    }
    uint8_t* const stop = out + row_bytes_;
    for (; out != stop && wire::read_varint(values, value); out += sizeof value)
      std::memcpy(out, &value, sizeof value);
    return out == stop && values.done();
  }

 private:
  const uint8_t list_tag_;  // what a Feature of this kind begins with; 0 when the short way does not apply
  const bool floats_;
  const size_t row_bytes_;
};

}  // namespace feedline
