// What the records of an unknown file hold: which features, of which kinds, and how many values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/fault.h"
#include "core/feature_values.h"
#include "core/schema.h"
#include "core/wire.h"

namespace feedline {

// The least and the most of what was counted; `least` exceeds `most` as long as nothing was.
struct Extent {
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;

  bool empty() const noexcept { return least > most; }
  void add(uint64_t count) noexcept { add(Extent{count, count}); }
  void add(Extent other) noexcept {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
};

// What was seen under one key. In a feature list, kinds, values and bytes are those of single steps.
struct KeySurvey {
  std::string key;
  uint64_t records = 0;             // that have it
  std::array<uint64_t, 4> kinds{};  // how often each ValueKind came
  Extent values;                    // in a Feature
  Extent bytes;                     // in a string
  Extent steps;                     // in a feature list
};

// Reads tf.train.Example and tf.train.SequenceExample, which are the same message up to the feature lists.
class Survey {
 public:
  // A malformed record is counted as such and adds nothing else; the fault says what is wrong with it.
  Fault add(std::span<const uint8_t> record);

  uint64_t records() const noexcept { return records_; }
  uint64_t malformed() const noexcept { return malformed_; }
  bool sequence() const noexcept { return sequence_; }
  // Some keys were left out, because hostile records could fill the memory with ever new ones.
  bool too_many_keys() const noexcept { return context_.full || lists_.full; }
  // In the order in which they first came.
  const std::vector<KeySurvey>& context() const noexcept { return context_.keys; }
  const std::vector<KeySurvey>& feature_lists() const noexcept { return lists_.keys; }

 private:
  // What one record holds under one key; it counts only once the whole record has proved sound.
  struct Found {
    size_t key = 0;
    std::array<uint32_t, 4> kinds{};
    Extent values, bytes, steps;
  };

  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };

  // A map of the message: Features or FeatureLists.
  struct Map {
    std::vector<KeySurvey> keys;
    std::unordered_map<std::string, size_t, TextHash, std::equal_to<>> index;
    std::vector<size_t> order;     // of the keys in the last record; the next one is likely to have the same
    std::vector<uint64_t> record;  // for each key: the record that `found_at` is about
    std::vector<size_t> found_at;  // for each key: where in `found` the record has it
    std::vector<Found> found;      // the current record
    size_t position = 0;
    size_t key_bytes = 0;
    bool full = false;
  };

  const char* scan(wire::Cursor record);
  const char* scan_map(Map& map, wire::Cursor entries, bool lists);
  const char* scan_value(wire::Cursor value, Found& found);
  const char* scan_list(wire::Cursor list, Found& found);
  const char* find_key(Map& map, std::string_view key, size_t& found) const;

  Map context_, lists_;
  FeatureValues values_;
  uint64_t records_ = 0;
  uint64_t malformed_ = 0;
  bool sequence_ = false;
};

}  // namespace feedline
