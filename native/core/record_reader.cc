#include "core/record_reader.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>

#include "core/framing.h"

namespace feedline {

namespace {

// A compressed file does not say how long it is, so a length in it cannot be compared with what is left.
// Nothing writes records beyond protobuf's own limit.
constexpr uint64_t kMaxUnknown = uint64_t{1} << 31;

// What may be spent on payloads that prove damaged: beyond it, only short ones are tried. A file that was not
// made to provoke this wastes each of its bytes once or twice.
constexpr uint64_t kMaxWaste = uint64_t{16} << 20;
constexpr uint64_t kWastePerByte = 64;
constexpr size_t kCheap = 4096;

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

}  // namespace

const RecordBatch::Run& RecordBatch::run_of(size_t record) const {
  auto after = std::upper_bound(runs.begin(), runs.end(), record,
                                [](size_t index, const Run& run) { return index < run.first; });
  return *std::prev(after);
}

Start RecordBatch::after(size_t record) const {
  const RecordView& view = records[record];
  return {run_of(record).file, view.offset + kFraming + view.size, view.number + 1};
}

void RecordBatch::skip(Fault fault) {
  skipped.push_back(std::move(fault));
  skipped_at.push_back(records.size());
}

void RecordBatch::unskip() {
  skipped.pop_back();
  skipped_at.pop_back();
}

void RecordBatch::append(const RecordBatch& more) {
  const size_t records_before = records.size();
  for (const Run& run : more.runs) runs.push_back({records_before + run.first, run.path, run.file});
  for (size_t at : more.skipped_at) skipped_at.push_back(records_before + at);
  records.insert(records.end(), more.records.begin(), more.records.end());
  chunks.insert(chunks.end(), more.chunks.begin(), more.chunks.end());
  skipped.insert(skipped.end(), more.skipped.begin(), more.skipped.end());
  bytes += more.bytes;
}

RecordBatch RecordBatch::split(size_t first_record, size_t first_note) {
  RecordBatch rest;
  rest.records.assign(records.begin() + static_cast<ptrdiff_t>(first_record), records.end());
  for (const RecordView& record : rest.records) rest.bytes += static_cast<size_t>(record.size);
  for (const Run& run : runs) {
    if (run.first <= first_record) rest.runs.clear();
    rest.runs.push_back({run.first - std::min(run.first, first_record), run.path, run.file});
  }
  if (!rest.records.empty()) {
    // Chunks are in the order of their records.
    const uint8_t* const first = rest.records.front().data;
    auto from = std::find_if(chunks.begin(), chunks.end(), [first](const auto& chunk) {
      return std::less_equal<>()(chunk->data(), first) && std::less<>()(first, chunk->data() + chunk->size());
    });
    rest.chunks.assign(from, chunks.end());
  }
  for (size_t note = first_note; note < skipped.size(); ++note) {
    rest.skipped.push_back(std::move(skipped[note]));
    rest.skipped_at.push_back(skipped_at[note] - first_record);
  }
  records.resize(first_record);
  skipped.resize(first_note);
  skipped_at.resize(first_note);
  bytes -= rest.bytes;
  return rest;
}

void RecordBatch::clear() {
  records.clear();
  runs.clear();
  chunks.clear();
  skipped.clear();
  skipped_at.clear();
  bytes = 0;
}

bool payload_holds(const RecordView& record) noexcept {
  return masked_crc32c(record.payload()) == load<uint32_t>(record.data + record.size);
}

Fault payload_fault(const RecordView& record) {
  Fault fault =
      Fault::corrupt(format("payload checksum 0x%08" PRIx32 ", file says 0x%08" PRIx32,
                            masked_crc32c(record.payload()), load<uint32_t>(record.data + record.size)));
  fault.record = record.number;
  fault.offset = static_cast<int64_t>(record.offset);
  return fault;
}

RecordReader::RecordReader(std::unique_ptr<ByteSource> source, std::string path, OnDamage on_damage,
                           const Start& start)
    : source_(std::move(source)),
      size_(source_->size()),
      path_(std::make_shared<const std::string>(std::move(path))),
      file_(start.file),
      on_damage_(on_damage),
      chunk_(std::make_shared<Buffer>()),
      offset_(start.offset),
      number_(start.number) {}

Fault RecordReader::open(const std::string& path, Compression compression, OnDamage on_damage,
                         std::unique_ptr<RecordReader>& out, Interrupted interrupted, const Start& start,
                         FileBudgets budgets) {
  std::unique_ptr<ByteSource> source;
  Fault fault = ByteSource::open(path, compression, source, std::move(interrupted), std::move(budgets));
  if (!fault && start.offset != 0) fault = source->skip(start.offset);
  if (fault) {
    fault.path = path;
    if (fault.kind == FaultKind::kCorrupt) fault.record = fault.offset = 0;
    return fault;
  }
  out.reset(new RecordReader(std::move(source), path, on_damage, start));
  return {};
}

Fault RecordReader::next(size_t max_records, size_t max_bytes, RecordBatch& batch) {
  if (done_) return {};
  if (batch.runs.empty() || batch.runs.back().path != path_)
    batch.runs.push_back({batch.records.size(), path_, file_});
  while (batch.records.size() < max_records && batch.bytes < max_bytes &&
         batch.skipped.size() < kMaxSkipped) {
    if (held() < kHeaderSize) {
      hold(kHeaderSize);
      if (held() < kHeaderSize && !exhausted_) return {};
      if (held() == 0) {
        if (is_short()) broken_ = source_->shrunk(offset_);
        return finish(std::move(broken_), batch);
      }
    }
    Damage damage;
    const Taken taken = take_record(batch, damage);
    if (taken == Taken::kRecord) [[likely]]
      continue;
    if (taken == Taken::kHungry) return {};
    if (damage.cut_short && is_short() && !unfinished()) broken_ = source_->shrunk(offset_ + held());
    if (damage.cut_short && broken_) {
      if (on_damage_ == OnDamage::kStop || broken_.kind != FaultKind::kCorrupt) {
        return finish(std::move(broken_), batch);
      }
      damage.why = std::exchange(broken_, {}).what;
    }
    if (on_damage_ == OnDamage::kStop) {
      if (damage.cut_short && unfinished()) return finish({}, batch);
      return finish(Fault::corrupt(std::move(damage.why)), batch);
    }
    resync(batch, std::move(damage));
  }
  return {};
}

RecordReader::Checked RecordReader::check(size_t max_bytes) {
  Checked checked;
  RecordBatch batch;
  while (!done_ && checked.bytes < max_bytes) {
    // A chunk at a time: its memory, still in the cache, serves for the next.
    batch.clear();
    checked.fault = next(SIZE_MAX, read_size_, batch);
    checked.good += batch.records.size();
    checked.bytes += batch.bytes;
    std::move(batch.skipped.begin(), batch.skipped.end(), std::back_inserter(checked.skipped));
  }
  return checked;
}

std::optional<uint64_t> RecordReader::left() const noexcept {
  if (exhausted_) return held();
  if (size_) return *size_ - std::min(*size_, offset_);
  return std::nullopt;
}

RecordReader::Taken RecordReader::take_record(RecordBatch& batch, Damage& damage) {
  if (held() < kHeaderSize) {
    damage.why = format("the header is cut off: %zu of 12 bytes", held());
    damage.cut_short = true;
    return Taken::kDamaged;
  }
  const uint64_t length = header_length(here());
  if (!header_holds(here())) {
    damage.why = format("header checksum 0x%08" PRIx32 ", file says 0x%08" PRIx32, masked_crc32c_u64(length),
                        load<uint32_t>(here() + 8));
    return Taken::kDamaged;
  }
  // `length` is the file's word: compare it with what is left, so that nothing is allocated for a lie.
  const auto too_long = [&](uint64_t after_header) {
    damage.why = format("it claims %" PRIu64 " bytes of payload and a footer, but %" PRIu64 " bytes are left",
                        length, after_header);
    damage.cut_short = true;
    return Taken::kDamaged;
  };
  const bool here_already = held() >= kFraming && length <= held() - kFraming;
  const std::optional<uint64_t> known = here_already ? held() : left();
  if (known && (*known < kFraming || length > *known - kFraming)) return too_long(*known - kHeaderSize);
  if (!known && length > kMaxUnknown) {
    damage.why = format("it claims %" PRIu64 " bytes of payload, more than any record has", length);
    return Taken::kDamaged;
  }
  const size_t whole = kFraming + static_cast<size_t>(length);
  // Headers that lie one inside the other could each have most of the file checked in vain.
  if (whole > kCheap && wasted_ > kMaxWaste + kWastePerByte * offset_) {
    damage.why = "one of too many lengths that led nowhere";
    return Taken::kDamaged;
  }
  if (held() < whole) {
    hold(whole);
    if (held() < whole) return exhausted_ ? too_long(held() - kHeaderSize) : Taken::kHungry;
  }
  const RecordView record{here() + kHeaderSize, length, offset_, number_};
  if (on_damage_ == OnDamage::kResync && !payload_holds(record)) {
    damage.why = payload_fault(record).what;
    damage.claimed = whole;
    wasted_ += whole;
    return Taken::kDamaged;
  }
  if (batch.chunks.empty() || batch.chunks.back() != chunk_) batch.chunks.push_back(chunk_);
  batch.records.push_back(record);
  batch.bytes += static_cast<size_t>(length);
  ++number_;
  at_ += whole;
  offset_ += whole;
  return Taken::kRecord;
}

void RecordReader::hold(size_t size) {
  if (fed_) return hold_from_stretch(size);
  if (source_->whole() && !exhausted_) {
    chunk_ = source_->whole();
    end_ = chunk_->size();
    at_ = static_cast<size_t>(std::min<uint64_t>(offset_, end_));
    exhausted_ = true;
    (void)source_->skip(end_);
  }
  while (held() < size && !exhausted_) {
    if (chunk_->size() - at_ < size) {
      // An unknown length is believed one doubling at a time, as the bytes arrive.
      const size_t grown = size_ ? size : std::min(size, std::max(read_size_, held() * 2));
      move_to_chunk(std::max(grown, read_size_));
    }
    std::span<uint8_t> room = chunk_->bytes().subspan(end_);
    // What was appended since the file was opened is not ours to judge: it may be half a record.
    if (size_) room = room.first(static_cast<size_t>(std::min<uint64_t>(room.size(), *left() - held())));
    size_t got = 0;
    broken_ = source_->read(room, got);
    end_ += got;
    exhausted_ = got < room.size() || broken_ || (size_ && offset_ + held() >= *size_);
  }
}

void RecordReader::hold_from_stretch(size_t size) {
  while (held() < size && stretch_at_ < stretch_.size) {
    size_t more = stretch_.size - stretch_at_;
    if (held() == 0) {
      chunk_ = stretch_.chunk;
      at_ = stretch_at_;
      end_ = stretch_.size;
    } else {
      // Over the seam of two stretches: this record, and no more, gets a chunk of its own.
      if (chunk_->size() - at_ < size) move_to_chunk(size);
      more = std::min(more, size - held());
      std::memcpy(chunk_->data() + end_, stretch_.chunk->data() + stretch_at_, more);
      end_ += more;
    }
    stretch_at_ += more;
  }
  if (exhausted_ || stretch_at_ < stretch_.size || !stretch_.last) return;
  exhausted_ = true;
  broken_ = std::move(stretch_.fault);
}

void RecordReader::move_to_chunk(size_t size) {
  auto fresh = std::make_shared<Buffer>(size);
  if (held() != 0) std::memcpy(fresh->data(), here(), held());
  end_ = held();
  at_ = 0;
  chunk_ = std::move(fresh);
}

Stretch RecordReader::read_stretch(uint64_t offset, size_t size) const {
  Stretch stretch;
  if (offset == 0 && source_->whole() && size >= source_->whole()->size()) {
    stretch.chunk = source_->whole();
    stretch.size = stretch.chunk->size();
    stretch.last = true;
    return stretch;
  }
  stretch.chunk = std::make_shared<Buffer>(size);
  stretch.fault = source_->read_at(offset, stretch.chunk->bytes(), stretch.size);
  stretch.last = stretch.size < size || stretch.fault || offset + size >= *size_;
  return stretch;
}

void RecordReader::feed(Stretch stretch) {
  fed_ = true;
  stretch_ = std::move(stretch);
  stretch_at_ = 0;
}

void RecordReader::resync(RecordBatch& batch, Damage damage) {
  const size_t past = damage.claimed == 0 ? 0 : past_bad_payload(damage.claimed);
  // A find that proves damaged too is part of the same stretch, and of the same note.
  const bool continues = past == 0 && offset_ == search_end_ && !batch.skipped.empty();
  const bool being_appended = damage.cut_short && !continues && unfinished();
  if (!continues) {
    search_why_ = std::move(damage.why);
    batch.skip(located(Fault::corrupt(search_why_)));
    ++number_;
  }
  std::string& what = batch.skipped.back().what;
  if (past != 0) {
    at_ += past;
    offset_ += past;
    if (past != damage.claimed) what += format("; the next sound header is at byte %" PRIu64, offset_);
  } else if (find_header()) {
    search_end_ = offset_;
    what = search_why_ + format("; the next sound header is at byte %" PRIu64, offset_);
  } else if (being_appended) {
    batch.unskip();
  } else {
    what = search_why_ + "; no sound header follows";
  }
}

bool RecordReader::unfinished() const noexcept {
  // Without its length, all that can be asked is whether the file has grown.
  const uint64_t whole = held() < kHeaderSize ? kHeaderSize : kFraming + header_length(here());
  return source_->is_being_appended(offset_, offset_ + whole);
}

bool RecordReader::find_header() {
  while (true) {
    if (held() <= kHeaderSize) {
      hold(read_size_);
      if (held() <= kHeaderSize) break;
    }
    const uint8_t* const data = here();
    const size_t last_start = held() - kHeaderSize;
    const uint64_t known = left().value_or(held() + kFraming + kMaxUnknown);
    for (size_t start = 1; start <= last_start; ++start) {
      if (!header_holds(data + start) || known - start < kFraming ||
          header_length(data + start) > known - start - kFraming) {
        continue;
      }
      at_ += start;
      offset_ += start;
      return true;
    }
    // Stay one before the first start that was not tried: the search begins one past `here()`.
    at_ += last_start;
    offset_ += last_start;
  }
  offset_ += held();
  at_ = end_;
  return false;
}

size_t RecordReader::past_bad_payload(size_t claimed) {
  hold(claimed + kHeaderSize);
  const bool at_end = held() == claimed;
  if (!at_end && (held() < claimed + kHeaderSize || !header_holds(here() + claimed))) return 0;
  // The size leads to a header or to the end. Even so it may be a lie, when a writer died inside the record
  // and another went on: then records that begin inside lead to the same place, or to a sound record that
  // reaches over it. (Eight bytes of payload and their footer look like a header; and records that the
  // payload itself holds lead to its end, short of the footer.) From the back, each start is looked at once.
  std::vector<size_t> good;  // starts from which records lead there, falling
  size_t first = claimed;    // of the headers inside that fit
  for (size_t start = std::min(claimed, held() - kHeaderSize) - 1; start > 0; --start) {
    if (!header_holds(here() + start)) continue;
    const uint64_t length = header_length(here() + start);
    if (start + kFraming > claimed || length > claimed - start - kFraming) {
      if (!sound_record_at(start, length)) continue;
      good.push_back(start);
    } else {
      const size_t next = start + kFraming + static_cast<size_t>(length);
      if (next == claimed || std::binary_search(good.begin(), good.end(), next, std::greater<>()))
        good.push_back(start);
    }
    first = start;
  }
  return good.empty() ? claimed : first;
}

bool RecordReader::sound_record_at(size_t start, uint64_t length) {
  const uint64_t known = left().value_or(held() + kFraming + kMaxUnknown);
  if (known - start < kFraming || length > known - start - kFraming) return false;
  if (wasted_ > kMaxWaste + kWastePerByte * offset_) return false;
  const size_t whole = kFraming + static_cast<size_t>(length);
  hold(start + whole);
  if (held() < start + whole) return false;
  if (payload_holds({here() + start + kHeaderSize, length, offset_ + start, number_})) return true;
  wasted_ += whole;
  return false;
}

Fault RecordReader::located(Fault fault) const {
  fault.path = *path_;
  if (fault.kind == FaultKind::kCorrupt) {
    fault.record = number_;
    fault.offset = static_cast<int64_t>(offset_);
  }
  return fault;
}

Fault RecordReader::finish(Fault fault, RecordBatch& batch) {
  done_ = true;
  if (!fault) return {};
  fault = located(std::move(fault));
  if (on_damage_ == OnDamage::kStop || fault.kind != FaultKind::kCorrupt) return fault;
  batch.skip(std::move(fault));
  return {};
}

}  // namespace feedline
