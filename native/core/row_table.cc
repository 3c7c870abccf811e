#include "core/row_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "core/feature_values.h"
#include "core/prefetch.h"
#include "core/stream_copy.h"

namespace feedline {

using wire::Cursor;

namespace {

// A value up to this size costs less to copy twice than to look for in another place.
constexpr size_t kMaxNear = 128;

// Picks that are gone through field by field: few enough for their rows to stay in the innermost cache.
constexpr size_t kChunk = 64;

template <class T>
T load(const uint8_t* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(uint8_t* to, const T& value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

std::optional<RowField> field_of(const Feature& feature, bool whole) {
  RowField field;
  field.bytes = feature.count * feature.item_size;
  if (feature.item_size == 0) {
    if (!whole && (feature.layout != Layout::kFixed || feature.count != 1)) return std::nullopt;
    field.kind = RowField::Kind::kString;
    return field;
  }
  if (feature.layout != Layout::kFixed && feature.layout != Layout::kRaw) return std::nullopt;
  // Integers are written as varints, so their bytes in the record are not the value's.
  const bool as_written = feature.layout == Layout::kRaw || feature.kind == ValueKind::kFloat;
  if (as_written && field.bytes > kMaxNear) field.kind = RowField::Kind::kFar;
  return field;
}

size_t size_in_row(const RowField& field) {
  switch (field.kind) {
    case RowField::Kind::kNear:
      return field.bytes;
    case RowField::Kind::kFar:
      return sizeof(const uint8_t*);
    case RowField::Kind::kString:
      break;
  }
  return sizeof(FarString);
}

// Rows that were picked, a few at a time.
class FoundRows {
 public:
  FoundRows(const RowLayout& layout, std::span<const RowTable* const> tables)
      : layout_(layout), tables_(tables) {}

  // Finds the rows and asks for their memory.
  void find(std::span<const Pick> picks) noexcept {
    count_ = picks.size();
    for (size_t i = 0; i < count_; ++i) {
      rows_[i] = tables_[picks[i].source]->row(picks[i].row, layout_);
      prefetch(rows_[i], layout_.stride);
    }
  }

  size_t size() const noexcept { return count_; }
  const uint8_t* operator[](size_t i) const noexcept { return rows_[i]; }

 private:
  const RowLayout& layout_;
  std::span<const RowTable* const> tables_;
  std::array<const uint8_t*, kChunk> rows_;
  size_t count_ = 0;
};

template <size_t kBytes>
void copy_near(const FoundRows& rows, size_t offset, uint8_t* out) noexcept {
  for (size_t i = 0; i < rows.size(); ++i, out += kBytes) std::memcpy(out, rows[i] + offset, kBytes);
}

void copy_near(const FoundRows& rows, const RowField& field, uint8_t* out) noexcept {
  switch (field.bytes) {
    case 0:
      return;
    case 1:
      return copy_near<1>(rows, field.offset, out);
    case 4:
      return copy_near<4>(rows, field.offset, out);
    case 8:
      return copy_near<8>(rows, field.offset, out);
    default:
      for (size_t i = 0; i < rows.size(); ++i)
        std::memcpy(out + i * field.bytes, rows[i] + field.offset, field.bytes);
  }
}

template <auto kCopy>
void copy_far(const FoundRows& rows, const RowField& field, uint8_t* out) noexcept {
  const auto value = [&](size_t i) { return load<const uint8_t*>(rows[i] + field.offset); };
  each_asked_for(
      rows.size(), rows_ahead(field.bytes), [&](size_t i) { prefetch(value(i), field.bytes); },
      [&](size_t i) { kCopy(out + i * field.bytes, value(i), field.bytes); });
}

// Calls each(rows, first) for the picks, a chunk at a time, the next being asked for before.
template <class Each>
void each_chunk(const RowLayout& layout, std::span<const RowTable* const> tables, std::span<const Pick> picks,
                Each each) {
  FoundRows turns[2] = {{layout, tables}, {layout, tables}};
  const auto chunk = [&](size_t first) {
    first = std::min(first, picks.size());
    return picks.subspan(first, std::min(kChunk, picks.size() - first));
  };
  size_t turn = 0;
  turns[0].find(chunk(0));
  for (size_t first = 0; first < picks.size(); first += kChunk, turn ^= 1) {
    turns[turn ^ 1].find(chunk(first + kChunk));
    each(turns[turn], first);
  }
}

std::vector<int64_t> counts_of(std::span<const RowTable* const> tables) {
  std::vector<int64_t> counts;
  counts.reserve(tables.size());
  for (const RowTable* table : tables) counts.push_back(static_cast<int64_t>(table->rows));
  return counts;
}

// Copies strings of about `mean` bytes end to end; the offsets are there.
void copy_strings(std::span<const FarString> strings, size_t mean, uint8_t* out) noexcept {
  each_asked_for(
      strings.size(), rows_ahead(mean), [&](size_t i) { prefetch(strings[i].data, strings[i].size); },
      [&](size_t i) {
        if (strings[i].size != 0) std::memcpy(out, strings[i].data, strings[i].size);
        out += strings[i].size;
      });
}

}  // namespace

std::optional<RowLayout> RowLayout::of(const Schema& schema) {
  if (!schema.lists.empty()) return std::nullopt;
  RowLayout layout;
  for (const Feature& feature : schema.features) {
    std::optional<RowField> field = field_of(feature, schema.whole);
    if (!field) return std::nullopt;
    field->offset = layout.stride;
    size_t end = 0;
    if (__builtin_add_overflow(layout.stride, size_in_row(*field), &end) || end > SIZE_MAX / 4)
      return std::nullopt;
    layout.stride = end;
    layout.fields.push_back(*field);
  }
  return layout;
}

size_t RowLayout::column_bytes() const noexcept {
  size_t bytes = 0;
  for (const RowField& field : fields) bytes += field.bytes;
  return bytes;
}

RowDecoder::RowDecoder(std::shared_ptr<const Schema> schema, RowLayout layout)
    : schema_(std::move(schema)), layout_(std::move(layout)), scanner_(*schema_) {
  numbers_.reserve(schema_->features.size());
  builders_.reserve(schema_->features.size());
  for (const Feature& feature : schema_->features) {
    numbers_.emplace_back(feature, /*in_list=*/false);
    builders_.emplace_back(feature, /*in_list=*/false);
  }
}

void RowDecoder::begin(size_t max_rows) {
  table_ = RowTable{};
  table_.data = Buffer(max_rows * layout_.stride);
  table_.data.resize(0);
}

bool RowDecoder::add(std::span<const uint8_t> record) {
  const size_t end = table_.data.size();
  table_.data.resize(end + layout_.stride);
  if (!place_row(record, table_.data.data() + end)) [[unlikely]] {
    table_.data.resize(end);
    fault_.keep_start_of(record);
    return false;
  }
  ++table_.rows;
  table_.bytes += record.size();
  return true;
}

bool RowDecoder::place_row(std::span<const uint8_t> record, uint8_t* row) {
  if (schema_->whole) {
    store(row, FarString{record.data(), record.size()});
    return true;
  }
  if (const char* wrong = scanner_.scan(record)) {
    fault_ = Fault::corrupt(wrong);
    return false;
  }
  for (size_t i = 0; i < layout_.fields.size(); ++i) {
    uint8_t* const out = row + layout_.fields[i].offset;
    const Cursor* const feature = scanner_.feature(i);
    if (feature != nullptr && place(i, *feature, out)) [[likely]]
      continue;
    if (!place_any(i, feature, out)) return false;
  }
  return true;
}

inline bool RowDecoder::place(size_t index, const Cursor& feature, uint8_t* out) const noexcept {
  const RowField& field = layout_.fields[index];
  const FixedNumbers& numbers = numbers_[index];
  if (field.kind == RowField::Kind::kNear) return numbers.apply() && numbers.read(feature, out);
  Cursor value;
  if (numbers.apply()) {
    if (!numbers.find(feature, value)) return false;
  } else if (!find_string(feature, value)) {
    return false;
  }
  if (field.kind == RowField::Kind::kString) {
    store(out, FarString{value.at, value.left()});
    return true;
  }
  if (value.left() != field.bytes) return false;
  store(out, value.at);
  return true;
}

bool RowDecoder::place_any(size_t index, const Cursor* feature, uint8_t* out) {
  ColumnBuilder& builder = builders_[index];
  builder.begin(1);
  if (!(feature == nullptr ? builder.add_missing() : builder.add(*feature))) {
    fault_ = std::move(builder.fault());
    return false;
  }
  auto value = std::make_shared<const Buffer>(std::move(builder.finish(1).data));
  const RowField& field = layout_.fields[index];
  switch (field.kind) {
    case RowField::Kind::kNear:
      if (field.bytes != 0) std::memcpy(out, value->data(), field.bytes);
      return true;
    case RowField::Kind::kFar:
      store(out, value->data());
      break;
    case RowField::Kind::kString:
      store(out, FarString{value->data(), value->size()});
      break;
  }
  table_.chunks.push_back(std::move(value));
  return true;
}

RowTable RowDecoder::finish() {
  table_.bytes = std::max(table_.bytes, table_.rows * layout_.column_bytes());
  return std::move(table_);
}

Flaw pick_columns(const RowLayout& layout, std::span<const RowTable* const> tables,
                  std::span<const int64_t> picks, std::vector<Column>& columns) {
  using Kind = RowField::Kind;
  columns = std::vector<Column>(layout.fields.size());
  std::vector<std::vector<FarString>> strings(layout.fields.size());
  for (size_t f = 0; f < columns.size(); ++f) {
    if (layout.fields[f].kind == Kind::kString) {
      strings[f].resize(picks.size());
      continue;
    }
    size_t bytes = 0;
    if (__builtin_mul_overflow(picks.size(), layout.fields[f].bytes, &bytes)) throw std::bad_alloc();
    columns[f].data = Buffer(bytes);
  }
  const auto copy_chunk = [&](const FoundRows& rows, size_t first) {
    for (size_t f = 0; f < columns.size(); ++f) {
      const RowField& field = layout.fields[f];
      if (field.kind == Kind::kString) {
        for (size_t i = 0; i < rows.size(); ++i)
          strings[f][first + i] = load<FarString>(rows[i] + field.offset);
      } else {
        uint8_t* const out = columns[f].data.data() + first * field.bytes;
        if (field.kind == Kind::kNear) {
          copy_near(rows, field, out);
        } else if (field.bytes * picks.size() >= kStreamBytes) {
          copy_far<stream_copy>(rows, field, out);
        } else {
          copy_far<std::memcpy>(rows, field, out);
        }
      }
    }
  };
  const std::vector<int64_t> counts = counts_of(tables);
  const auto copy_part = [&](size_t begin, std::span<const Pick> part) {
    each_chunk(layout, tables, part,
               [&](const FoundRows& rows, size_t first) { copy_chunk(rows, begin + first); });
    end_stream();
  };
  if (const Flaw flaw = SharedPicks({counts, picks}, layout.column_bytes(), copy_part).finish()) return flaw;
  for (size_t f = 0; f < columns.size(); ++f) {
    if (layout.fields[f].kind != Kind::kString) continue;
    columns[f].strings = Buffer((picks.size() + 1) * sizeof(int64_t));
    int64_t* const offsets = columns[f].strings.as<int64_t>();
    size_t total = 0;
    offsets[0] = 0;
    for (size_t i = 0; i < picks.size(); ++i) {
      if (__builtin_add_overflow(total, strings[f][i].size, &total)) throw std::bad_alloc();
      offsets[i + 1] = static_cast<int64_t>(total);
    }
    columns[f].data = Buffer(total);
    const size_t mean = total / std::max<size_t>(picks.size(), 1);
    share_rows(picks.size(), mean, [&](size_t begin, size_t end) {
      copy_strings(std::span(strings[f]).subspan(begin, end - begin), mean,
                   columns[f].data.data() + offsets[begin]);
    });
  }
  return {};
}

Flaw copy_rows(const RowLayout& layout, std::span<const RowTable* const> tables, std::span<const int64_t> all,
               RowTable& copy) {
  const std::vector<int64_t> counts = counts_of(tables);
  std::vector<Pick> picks(all.size());
  if (const Flaw flaw = Picks{counts, all}.read(0, picks)) return flaw;
  copy = RowTable{};
  copy.rows = picks.size();
  copy.data = Buffer(picks.size() * layout.stride);
  std::vector<size_t> begins(picks.size());  // in the chunk, of what each row points to
  uint8_t* at = copy.data.data();
  size_t far = 0;
  for (size_t i = 0; i < picks.size(); ++i, at += layout.stride) {
    const RowTable& table = *tables[picks[i].source];
    std::memcpy(at, table.row(picks[i].row, layout), layout.stride);
    copy.bytes += table.bytes / std::max<size_t>(table.rows, 1);
    begins[i] = far;
    for (const RowField& field : layout.fields) {
      if (field.kind == RowField::Kind::kFar) far += field.bytes;
      if (field.kind == RowField::Kind::kString) far += load<FarString>(at + field.offset).size;
    }
  }
  if (far == 0) return {};
  auto chunk = std::make_shared<Buffer>(far);
  share_rows(copy.rows, far / copy.rows, [&](size_t begin, size_t end) {
    uint8_t* out = chunk->data() + begins[begin];
    const auto moved = [&](const uint8_t* from, size_t bytes) {
      if (bytes != 0) std::memcpy(out, from, bytes);
      out += bytes;
      return const_cast<const uint8_t*>(out - bytes);
    };
    const auto row_at = [&](size_t i) { return copy.data.data() + (begin + i) * layout.stride; };
    const auto ask = [&](size_t i) {
      for (const RowField& field : layout.fields) {
        if (field.kind == RowField::Kind::kFar)
          prefetch(load<const uint8_t*>(row_at(i) + field.offset), field.bytes);
      }
    };
    each_asked_for(end - begin, rows_ahead(far / copy.rows), ask, [&](size_t i) {
      for (const RowField& field : layout.fields) {
        uint8_t* const place = row_at(i) + field.offset;
        if (field.kind == RowField::Kind::kFar) {
          store(place, moved(load<const uint8_t*>(place), field.bytes));
        } else if (field.kind == RowField::Kind::kString) {
          const auto string = load<FarString>(place);
          store(place, FarString{moved(string.data, string.size), string.size});
        }
      }
    });
  });
  copy.chunks.push_back(std::move(chunk));
  return {};
}

}  // namespace feedline
