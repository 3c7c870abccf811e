#include "core/feature_values.h"

#include <cstring>

namespace feedline {

using wire::Cursor;

namespace {

constexpr uint32_t kPacked = wire::tag(1, wire::kDelimited);

// Walks a list of numbers: packed runs and single values, in any mixture. `packed(Cursor)` and
// `single(Cursor&)` return false on malformed bytes.
template <class Packed, class Single>
inline bool walk(Cursor list, uint32_t single_tag, Packed&& packed, Single&& single) noexcept {
  while (!list.done()) {
    uint32_t tag = 0;
    if (!wire::read_tag(list, tag)) return false;
    if (tag == kPacked) {
      Cursor run;
      if (!wire::read_delimited(list, run) || !packed(run)) return false;
    } else if (tag == single_tag) {
      if (!single(list)) return false;
    } else if (!wire::skip_field(list, tag)) {
      return false;
    }
  }
  return true;
}

constexpr uint32_t kInt64Tag = wire::tag(1, wire::kVarint);
constexpr uint32_t kFloatTag = wire::tag(1, wire::kFixed32);

// Each varint ends with the one byte whose top bit is clear.
size_t count_varints(Cursor run) noexcept {
  size_t ends = 0;
  for (const uint8_t* at = run.at; at != run.end; ++at) ends += *at < 0x80;
  return ends;
}

}  // namespace

bool FeatureValues::parse_merged(Cursor feature) {
  // A oneof keeps the kind that was set last; lists of that kind since the last change of kind are merged.
  kind_ = ValueKind::kNone;
  merged_.clear();
  while (!feature.done()) {
    uint32_t tag = 0;
    if (!wire::read_tag(feature, tag)) return false;
    const uint32_t field = tag >> 3;
    if ((tag & 7) != wire::kDelimited || field > 3) {
      if (!wire::skip_field(feature, tag)) return false;
      continue;
    }
    Cursor list;
    if (!wire::read_delimited(feature, list)) return false;
    const auto kind = static_cast<ValueKind>(field);
    if (kind != kind_) merged_.clear();
    kind_ = kind;
    merged_.push_back(list);
  }
  lists_ = merged_;
  return true;
}

bool FeatureValues::count(size_t& values) const noexcept {
  size_t total = 0;
  for (const Cursor& list : lists_) {
    const bool sound = kind_ == ValueKind::kInt64
                           ? walk(
                                 list, kInt64Tag,
                                 [&](Cursor run) {
                                   total += count_varints(run);
                                   return run.done() || run.end[-1] < 0x80;  // the last one must end too
                                 },
                                 [&](Cursor& in) {
                                   uint64_t ignored = 0;
                                   ++total;
                                   return wire::read_varint(in, ignored);
                                 })
                           : walk(
                                 list, kFloatTag,
                                 [&](Cursor run) {
                                   total += run.left() / sizeof(float);
                                   return run.left() % sizeof(float) == 0;
                                 },
                                 [&](Cursor& in) {
                                   float ignored = 0;
                                   ++total;
                                   return wire::read_fixed(in, ignored);
                                 });
    if (!sound) return false;
  }
  values = total;
  return true;
}

bool FeatureValues::copy(int64_t* out) const noexcept {
  auto read_one = [&](Cursor& in) {
    uint64_t value = 0;
    if (!wire::read_varint(in, value)) return false;
    *out++ = static_cast<int64_t>(value);
    return true;
  };
  for (const Cursor& list : lists_) {
    const bool sound = walk(
        list, kInt64Tag,
        [&](Cursor run) {
          while (!run.done()) {
            if (!read_one(run)) return false;
          }
          return true;
        },
        read_one);
    if (!sound) return false;
  }
  return true;
}

bool FeatureValues::copy(float* out) const noexcept {
  for (const Cursor& list : lists_) {
    const bool sound = walk(
        list, kFloatTag,
        [&](Cursor run) {
          std::memcpy(out, run.at, run.left());
          out += run.left() / sizeof(float);
          return true;
        },
        [&](Cursor& in) { return wire::read_fixed(in, *out++); });
    if (!sound) return false;
  }
  return true;
}

}  // namespace feedline
