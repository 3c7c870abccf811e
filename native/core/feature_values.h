// The values of one tf.train.Feature message, whichever way its writer encoded them: packed or not, in one
// list or in several that protobuf merges, with unknown fields between.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/schema.h"
#include "core/wire.h"

namespace feedline {

// The short way to the one string of a Feature that holds nothing else; false when it is written otherwise.
inline bool find_string(wire::Cursor feature, wire::Cursor& value) noexcept {
  constexpr uint32_t kBytesList = wire::tag(1, wire::kDelimited), kValue = wire::tag(1, wire::kDelimited);
  uint32_t tag = 0;
  wire::Cursor list;
  return wire::read_tag(feature, tag) && tag == kBytesList && wire::read_delimited(feature, list) &&
         feature.done() && wire::read_tag(list, tag) && tag == kValue && wire::read_delimited(list, value) &&
         list.done();
}

class FeatureValues {
 public:
  // False when the message is malformed.
  bool parse(wire::Cursor feature) {
    lists_ = {&only_, 1};
    if (feature.done()) {
      kind_ = ValueKind::kNone;
      lists_ = {};
      return true;
    }
    // Nearly always the message is one list and nothing else.
    const uint8_t tag = *feature.at;
    wire::Cursor rest(feature.at + 1, feature.left() - 1);
    if ((tag == 0x0a || tag == 0x12 || tag == 0x1a) && wire::read_delimited(rest, only_) && rest.done())
        [[likely]] {
      kind_ = static_cast<ValueKind>(tag >> 3);
      return true;
    }
    return parse_merged(feature);
  }

  ValueKind kind() const noexcept { return kind_; }

  // Numbers only. A false count or copy means a malformed list; `out` has room for what `count` said.
  bool count(size_t& values) const noexcept;
  bool copy(int64_t* out) const noexcept;
  bool copy(float* out) const noexcept;

  // Calls `take(std::string_view)` for each string, in order.
  template <class Take>
  bool each_string(Take&& take) const {
    for (wire::Cursor list : lists_) {
      while (!list.done()) {
        uint32_t tag = 0;
        if (!wire::read_tag(list, tag)) return false;
        if (tag != wire::tag(1, wire::kDelimited)) {
          if (!wire::skip_field(list, tag)) return false;
          continue;
        }
        wire::Cursor value;
        if (!wire::read_delimited(list, value)) return false;
        take(value.text());
      }
    }
    return true;
  }

 private:
  bool parse_merged(wire::Cursor feature);

  ValueKind kind_ = ValueKind::kNone;
  std::span<const wire::Cursor> lists_;
  wire::Cursor only_;
  std::vector<wire::Cursor> merged_;
};

}  // namespace feedline
