#include "core/survey.h"

#include "core/utf8.h"

namespace feedline {

using wire::Cursor;

namespace {

constexpr uint32_t kFirst = wire::tag(1, wire::kDelimited);
constexpr uint32_t kSecond = wire::tag(2, wire::kDelimited);
constexpr const char* kMalformed = "the protobuf message is malformed";

constexpr size_t kMaxKeys = 10'000;
constexpr size_t kMaxKeyBytes = size_t{16} << 20;
constexpr size_t kNoKey = SIZE_MAX;

bool read_entry(Cursor entry, Cursor& key, Cursor& value) noexcept {
  key = value = Cursor();
  while (!entry.done()) {
    uint32_t tag = 0;
    if (!wire::read_tag(entry, tag)) return false;
    if (tag == kFirst || tag == kSecond) {
      if (!wire::read_delimited(entry, tag == kFirst ? key : value)) return false;
    } else if (!wire::skip_field(entry, tag)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Fault Survey::add(std::span<const uint8_t> record) {
  ++records_;
  const size_t known_keys[] = {context_.keys.size(), lists_.keys.size()};
  Map* const maps[] = {&context_, &lists_};
  for (Map* map : maps) {
    map->found.clear();
    map->position = 0;
  }
  if (const char* wrong = scan(Cursor(record.data(), record.size()))) {
    ++malformed_;
    for (size_t i = 0; i < 2; ++i) {  // forget the keys that only this record has
      Map& map = *maps[i];
      for (; map.keys.size() > known_keys[i]; map.keys.pop_back()) {
        map.index.erase(map.keys.back().key);
        map.key_bytes -= map.keys.back().key.size();
        map.record.pop_back();
        map.found_at.pop_back();
      }
    }
    return Fault::corrupt(wrong);
  }
  for (Map* map : maps) {
    for (const Found& found : map->found) {
      KeySurvey& key = map->keys[found.key];
      ++key.records;
      for (size_t kind = 0; kind < key.kinds.size(); ++kind) key.kinds[kind] += found.kinds[kind];
      key.values.add(found.values);
      key.bytes.add(found.bytes);
      key.steps.add(found.steps);
    }
  }
  return {};
}

const char* Survey::scan(Cursor record) {
  bool has_lists = false;
  while (!record.done()) {
    uint32_t tag = 0;
    if (!wire::read_tag(record, tag)) return kMalformed;
    if (tag != kFirst && tag != kSecond) {
      if (!wire::skip_field(record, tag)) return kMalformed;
      continue;
    }
    Cursor entries;
    if (!wire::read_delimited(record, entries)) return kMalformed;
    has_lists = has_lists || tag == kSecond;
    if (const char* wrong = scan_map(tag == kSecond ? lists_ : context_, entries, tag == kSecond))
      return wrong;
  }
  sequence_ = sequence_ || has_lists;
  return nullptr;
}

const char* Survey::scan_map(Map& map, Cursor entries, bool lists) {
  while (!entries.done()) {
    uint32_t tag = 0;
    Cursor entry, key, value;
    if (!wire::read_tag(entries, tag)) return kMalformed;
    if (tag != kFirst) {
      if (!wire::skip_field(entries, tag)) return kMalformed;
      continue;
    }
    if (!wire::read_delimited(entries, entry) || !read_entry(entry, key, value)) return kMalformed;
    Found& found = map.found.emplace_back();
    if (const char* wrong = find_key(map, key.text(), found.key)) return wrong;
    if (const char* wrong = lists ? scan_list(value, found) : scan_value(value, found)) return wrong;
    if (found.key == kNoKey) {
      map.found.pop_back();
    } else if (map.record[found.key] == records_) {  // the last of equal keys wins, as in protobuf
      map.found[map.found_at[found.key]] = found;
      map.found.pop_back();
    } else {
      map.record[found.key] = records_;
      map.found_at[found.key] = map.found.size() - 1;
    }
  }
  return nullptr;
}

const char* Survey::find_key(Map& map, std::string_view key, size_t& found) const {
  const size_t position = map.position++;
  if (position < map.order.size()) [[likely]] {
    const size_t expected = map.order[position];
    if (expected < map.keys.size() && map.keys[expected].key == key) [[likely]] {
      found = expected;
      return nullptr;
    }
  }
  if (!is_utf8(key)) return "a feature's key is not valid UTF-8";
  if (const auto known = map.index.find(key); known != map.index.end()) {
    found = known->second;
  } else if (map.keys.size() == kMaxKeys || key.size() > kMaxKeyBytes - map.key_bytes) {
    map.full = true;
    found = kNoKey;
    return nullptr;
  } else {
    found = map.keys.size();
    map.keys.emplace_back().key = key;
    map.index.emplace(map.keys.back().key, found);
    map.key_bytes += key.size();
    map.record.push_back(0);
    map.found_at.push_back(0);
  }
  if (position < map.order.size()) {
    map.order[position] = found;
  } else if (position == map.order.size() && position < kMaxKeys) {
    map.order.push_back(found);
  }
  return nullptr;
}

const char* Survey::scan_value(Cursor value, Found& found) {
  if (!values_.parse(value)) return kMalformed;
  size_t count = 0;
  if (values_.kind() == ValueKind::kBytes) {
    const bool sound = values_.each_string([&](std::string_view string) {
      found.bytes.add(string.size());
      ++count;
    });
    if (!sound) return kMalformed;
  } else if (values_.kind() != ValueKind::kNone && !values_.count(count)) {
    return kMalformed;
  }
  ++found.kinds[static_cast<size_t>(values_.kind())];
  found.values.add(count);
  return nullptr;
}

const char* Survey::scan_list(Cursor list, Found& found) {
  uint64_t steps = 0;
  while (!list.done()) {
    uint32_t tag = 0;
    Cursor step;
    if (!wire::read_tag(list, tag)) return kMalformed;
    if (tag != kFirst) {
      if (!wire::skip_field(list, tag)) return kMalformed;
      continue;
    }
    if (!wire::read_delimited(list, step)) return kMalformed;
    if (const char* wrong = scan_value(step, found)) return wrong;
    ++steps;
  }
  found.steps.add(steps);
  return nullptr;
}

}  // namespace feedline
