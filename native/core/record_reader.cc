#include "core/record_reader.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "core/framing.h"

namespace feedline {

namespace {

// Small enough to stay in a core's L2 cache between the read and the parse, large enough to hide the calls.
constexpr size_t kChunk = size_t{256} << 10;

// A compressed file does not say how long it is, so a length in it cannot be compared with what is left.
// Nothing writes records beyond protobuf's own limit.
constexpr uint64_t kMaxUnknown = uint64_t{1} << 31;

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

}  // namespace

const std::string& RecordBatch::path_of(size_t record) const {
  auto after = std::upper_bound(runs.begin(), runs.end(), record,
                                [](size_t index, const Run& run) { return index < run.first; });
  return *std::prev(after)->path;
}

void RecordBatch::clear() {
  records.clear();
  runs.clear();
  chunks.clear();
  skipped.clear();
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

RecordReader::RecordReader(std::unique_ptr<ByteSource> source, std::string path, OnDamage on_damage)
    : source_(std::move(source)),
      size_(source_->size()),
      path_(std::make_shared<const std::string>(std::move(path))),
      on_damage_(on_damage),
      chunk_(std::make_shared<Buffer>()) {}

Fault RecordReader::open(const std::string& path, Compression compression, OnDamage on_damage,
                         std::unique_ptr<RecordReader>& out, ByteSource::Interrupted interrupted) {
  std::unique_ptr<ByteSource> source;
  Fault fault = ByteSource::open(path, compression, source, std::move(interrupted));
  if (fault) {
    fault.path = path;
    return fault;
  }
  out.reset(new RecordReader(std::move(source), path, on_damage));
  return {};
}

Fault RecordReader::next(size_t max_records, size_t max_bytes, RecordBatch& batch) {
  if (done_) return {};
  if (batch.runs.empty() || batch.runs.back().path != path_)
    batch.runs.push_back({batch.records.size(), path_});
  std::string why;
  while (batch.records.size() < max_records && batch.bytes < max_bytes) {
    if (held() < kHeaderSize) {
      hold(kHeaderSize);
      if (held() == 0) return finish(std::move(broken_), batch);
    }
    if (take_record(batch, why)) continue;
    if (on_damage_ == OnDamage::kStop)
      return finish(broken_ ? std::move(broken_) : Fault::corrupt(std::move(why)), batch);
    resync(batch, std::move(why));
  }
  return {};
}

RecordReader::Checked RecordReader::check(size_t max_bytes) {
  Checked checked;
  RecordBatch batch;
  while (!done_ && !checked.end && checked.bytes < max_bytes) {
    // A chunk at a time: it is in the cache still, and its memory serves for the next.
    batch.clear();
    checked.end = next(SIZE_MAX, kChunk, batch);
    auto skipped = batch.skipped.begin();
    const auto note_skipped_before = [&](int64_t number) {
      for (; skipped != batch.skipped.end() && skipped->record < number; ++skipped) {
        checked.faults.push_back(std::move(*skipped));
      }
    };
    for (const RecordView& record : batch.records) {
      note_skipped_before(record.number);
      if (payload_holds(record)) {
        ++checked.good;
      } else {
        checked.faults.push_back(payload_fault(record));
        checked.faults.back().path = *path_;
      }
    }
    note_skipped_before(INT64_MAX);
    checked.bytes += batch.bytes;
  }
  return checked;
}

bool RecordReader::take_record(RecordBatch& batch, std::string& why) {
  if (held() < kHeaderSize) {
    why = format("the header is cut off: %zu of 12 bytes", held());
    return false;
  }
  const uint64_t length = header_length(here());
  if (!header_holds(here())) {
    why = format("header checksum 0x%08" PRIx32 ", file says 0x%08" PRIx32, masked_crc32c_u64(length),
                 load<uint32_t>(here() + 8));
    return false;
  }
  // `length` is the file's word: compare it with what is left, so that nothing is allocated for a lie.
  const uint64_t payload_at = offset_ + kHeaderSize;
  const uint64_t size = size_.value_or(payload_at + kMaxUnknown + kFooterSize);
  const uint64_t left = size > payload_at ? size - payload_at : 0;
  if (left < kFooterSize || length > left - kFooterSize) {
    why = format("it claims %" PRIu64 " bytes of payload and a footer, but %" PRIu64 " bytes are left",
                 length, left);
    return false;
  }
  const size_t whole = kHeaderSize + static_cast<size_t>(length) + kFooterSize;
  if (held() < whole) {
    hold(whole);
    if (held() < whole) {
      why = format("it claims %" PRIu64 " bytes of payload and a footer, but %zu bytes are left", length,
                   held() - kHeaderSize);
      return false;
    }
  }
  if (batch.chunks.empty() || batch.chunks.back() != chunk_) batch.chunks.push_back(chunk_);
  last_ = RecordView{here() + kHeaderSize, length, offset_, number_++};
  if (last_chunk_ != chunk_) last_chunk_ = chunk_;
  batch.records.push_back(last_);
  batch.bytes += static_cast<size_t>(length);
  at_ += whole;
  offset_ += whole;
  return true;
}

void RecordReader::hold(size_t size) {
  while (held() < size && !exhausted_) {
    if (chunk_->size() - at_ < size) {
      // Records in the old chunk stay where they are; only the part of the next one moves. An unknown length
      // is believed one doubling at a time, as the bytes arrive.
      const size_t grown = size_ ? size : std::min(size, std::max(kChunk, held() * 2));
      auto fresh = std::make_shared<Buffer>(std::max(grown, kChunk));
      if (held() != 0) std::memcpy(fresh->data(), here(), held());
      end_ = held();
      at_ = 0;
      chunk_ = std::move(fresh);
    }
    size_t got = 0;
    std::span<uint8_t> room = chunk_->bytes().subspan(end_);
    broken_ = source_->read(room, got);
    end_ += got;
    exhausted_ = got < room.size() || broken_;
  }
}

void RecordReader::resync(RecordBatch& batch, std::string why) {
  Fault note = located(Fault::corrupt(std::move(why)));
  number_++;
  if (last_chunk_ && !payload_holds(last_)) {
    // The record before had a bad payload, and nothing sound follows it: its length may have led us past good
    // records, for instance when a writer died inside it and another went on after the torn part.
    step_back_over(last_);
  }
  last_chunk_.reset();

  const uint64_t size = size_.value_or(UINT64_MAX);
  bool found = false;
  while (!found) {
    if (held() <= kHeaderSize) {
      hold(kChunk);
      if (held() <= kHeaderSize) break;
    }
    const uint8_t* const data = here();
    const size_t last_start = held() - kHeaderSize;
    size_t start = 1;
    for (; start <= last_start && !found; ++start) {
      if (!header_holds(data + start)) continue;
      const uint64_t after = offset_ + start + kHeaderSize + kFooterSize;
      const uint64_t length = header_length(data + start);
      found = after <= size && length <= (size_ ? size - after : kMaxUnknown);
    }
    // Without a find, stay one before the first start that was not tried: the search begins one past
    // `here()`.
    const size_t passed = found ? start - 1 : last_start;
    at_ += passed;
    offset_ += passed;
  }
  if (found) {
    note.what += format("; the next sound header is at byte %" PRIu64, offset_);
  } else {
    offset_ += held();
    at_ = end_;
    note.what += "; no sound header follows";
  }
  batch.skipped.push_back(std::move(note));
}

void RecordReader::step_back_over(const RecordView& record) {
  const size_t span = kHeaderSize + static_cast<size_t>(record.size) + kFooterSize;
  auto joined = std::make_shared<Buffer>(std::max(span + held(), kChunk));
  std::memcpy(joined->data(), record.data - kHeaderSize, span);
  if (held() != 0) std::memcpy(joined->data() + span, here(), held());
  end_ = span + held();
  at_ = 0;
  offset_ -= span;
  chunk_ = std::move(joined);
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
  batch.skipped.push_back(std::move(fault));
  return {};
}

}  // namespace feedline
