#include "core/example_decoder.h"

#include <algorithm>
#include <cstring>

#include "core/utf8.h"

namespace feedline {

using wire::Cursor;

namespace {

constexpr uint32_t kFirst = wire::tag(1, wire::kDelimited);
constexpr uint32_t kSecond = wire::tag(2, wire::kDelimited);

// A hostile record may hold a million keys; they are not worth remembering.
constexpr size_t kMaxExpected = 4096;

constexpr const char* kMalformed = "the protobuf message is malformed";

std::string entry_prefix(std::string_view key) {
  std::string prefix(1, static_cast<char>(kFirst));
  for (size_t rest = key.size();; rest >>= 7) {
    if (rest < 0x80) {
      prefix += static_cast<char>(rest);
      break;
    }
    prefix += static_cast<char>(rest | 0x80);
  }
  prefix += key;
  prefix += static_cast<char>(kSecond);
  return prefix;
}

}  // namespace

// A call of memcmp would cost more than the rest of a short entry.
inline bool KeyedFields::Expected::begins(const Cursor& entry) const noexcept {
  constexpr size_t kHead = sizeof head;
  if (entry.left() < kHead) {
    return mask != 0 && entry.left() > prefix.size() &&
           std::memcmp(entry.at, prefix.data(), prefix.size()) == 0;
  }
  uint64_t word = 0;
  std::memcpy(&word, entry.at, kHead);
  if (mask == 0 || (word & mask) != head) return false;
  if (prefix.size() <= kHead) return true;
  return entry.left() > prefix.size() &&
         std::memcmp(entry.at + kHead, prefix.data() + kHead, prefix.size() - kHead) == 0;
}

KeyedFields::KeyedFields(const std::vector<Feature>& features) {
  for (const Feature& feature : features) {
    auto [found, fresh] = slots_by_key_.try_emplace(feature.key, static_cast<int>(slots_.size()));
    if (fresh) slots_.emplace_back();
    slot_of_.push_back(static_cast<size_t>(found->second));
  }
}

const char* KeyedFields::scan(Cursor map) {
  for (size_t position = 0; !map.done();) {
    uint32_t tag = 0;
    if (!wire::read_tag(map, tag)) return kMalformed;
    if (tag != kFirst) {
      if (!wire::skip_field(map, tag)) return kMalformed;
      continue;
    }
    Cursor entry;
    if (!wire::read_delimited(map, entry)) return kMalformed;
    if (position == expected_.size() && position < kMaxExpected) expected_.emplace_back();
    Expected& expected = position < expected_.size() ? expected_[position] : unexpected_;
    ++position;

    Cursor value;
    Cursor rest = entry;
    const bool as_expected = expected.begins(entry);
    if (as_expected) rest.at += expected.prefix.size();
    if (!as_expected || !wire::read_delimited(rest, value) || !rest.done()) [[unlikely]] {
      Cursor found;  // apart from `value`, which stays in registers as long as its address is not taken
      if (const char* wrong = scan_entry(entry, found, expected)) return wrong;
      value = found;
    }
    if (expected.slot != kUnwanted) {
      Slot& slot = slots_[static_cast<size_t>(expected.slot)];
      slot.value.at = value.at;
      slot.value.end = value.end;
      slot.record = record_;
    }
  }
  return nullptr;
}

const char* KeyedFields::scan_entry(Cursor entry, Cursor& value, Expected& learned) const {
  Cursor key;
  value = Cursor();
  while (!entry.done()) {
    uint32_t tag = 0;
    if (!wire::read_tag(entry, tag)) return kMalformed;
    if (tag == kFirst || tag == kSecond) {
      if (!wire::read_delimited(entry, tag == kFirst ? key : value)) return kMalformed;
    } else if (!wire::skip_field(entry, tag)) {
      return kMalformed;
    }
  }
  if (!is_utf8(key.text())) return "a feature's key is not valid UTF-8";
  auto found = slots_by_key_.find(key.text());
  learned.prefix = entry_prefix(key.text());
  const size_t head = std::min(learned.prefix.size(), sizeof learned.head);
  learned.head = 0;
  std::memcpy(&learned.head, learned.prefix.data(), head);
  learned.mask = ~uint64_t{0} >> (64 - 8 * head);
  learned.slot = found == slots_by_key_.end() ? kUnwanted : found->second;
  return nullptr;
}

const char* ExampleScanner::scan(std::span<const uint8_t> record) {
  features_.clear();
  lists_.clear();
  Cursor message(record.data(), record.size());
  while (!message.done()) {
    uint32_t tag = 0;
    if (!wire::read_tag(message, tag)) return kMalformed;
    const bool is_lists = tag == kSecond && has_lists_;
    if (tag != kFirst && !is_lists) {
      if (!wire::skip_field(message, tag)) return kMalformed;
      continue;
    }
    Cursor map;
    if (!wire::read_delimited(message, map)) return kMalformed;
    if (const char* wrong = (is_lists ? lists_ : features_).scan(map)) return wrong;
  }
  return nullptr;
}

ExampleDecoder::ExampleDecoder(std::shared_ptr<const Schema> schema)
    : schema_(std::move(schema)), scanner_(*schema_) {
  columns_.reserve(schema_->features.size() + schema_->lists.size());
  for (const Feature& feature : schema_->features) columns_.emplace_back(feature, /*in_list=*/false);
  for (const Feature& feature : schema_->lists) columns_.emplace_back(feature, /*in_list=*/true);
}

void ExampleDecoder::begin(size_t max_rows) {
  rows_ = 0;
  for (ColumnBuilder& column : columns_) column.begin(max_rows);
}

bool ExampleDecoder::add(std::span<const uint8_t> record) {
  if (add_row(record)) [[likely]] {
    ++rows_;
    return true;
  }
  for (ColumnBuilder& column : columns_) column.cut(rows_);
  // Whoever asked for lists knows what the record is.
  if (fault_.kind == FaultKind::kCorrupt || schema_->lists.empty()) fault_.keep_start_of(record);
  return false;
}

bool ExampleDecoder::add_row(std::span<const uint8_t> record) {
  if (schema_->whole) {
    columns_[0].add_string({reinterpret_cast<const char*>(record.data()), record.size()});
    return true;
  }
  if (const char* wrong = scanner_.scan(record)) {
    fault_ = Fault::corrupt(wrong);
    return false;
  }
  const size_t features = schema_->features.size();
  for (size_t i = 0; i < columns_.size(); ++i) {
    ColumnBuilder& column = columns_[i];
    const bool is_list = i >= features;
    const Cursor* value = is_list ? scanner_.list(i - features) : scanner_.feature(i);
    const bool added = value == nullptr ? column.add_missing()
                       : is_list        ? column.add_list(*value)
                                        : column.add(*value);
    if (!added) {
      fault_ = std::move(column.fault());
      return false;
    }
  }
  return true;
}

std::vector<Column> ExampleDecoder::finish() {
  std::vector<Column> columns;
  columns.reserve(columns_.size());
  for (ColumnBuilder& column : columns_) columns.push_back(column.finish(rows_));
  return columns;
}

}  // namespace feedline
