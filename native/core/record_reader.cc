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
    if (fault.kind == FaultKind::kCorrupt) fault.record = fault.offset = 0;
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
  size_t claimed = 0;
  while (batch.records.size() < max_records && batch.bytes < max_bytes) {
    if (held() < kHeaderSize) {
      hold(kHeaderSize);
      if (held() == 0) return finish(std::move(broken_), batch);
    }
    if (take_record(batch, why, claimed)) continue;
    if (on_damage_ == OnDamage::kStop)
      return finish(broken_ ? std::move(broken_) : Fault::corrupt(std::move(why)), batch);
    resync(batch, std::move(why), claimed);
  }
  return {};
}

RecordReader::Checked RecordReader::check(size_t max_bytes) {
  Checked checked;
  RecordBatch batch;
  while (!done_ && checked.bytes < max_bytes) {
    // A chunk at a time: its memory, still in the cache, serves for the next.
    batch.clear();
    checked.fault = next(SIZE_MAX, kChunk, batch);
    checked.good += batch.records.size();
    checked.bytes += batch.bytes;
    std::move(batch.skipped.begin(), batch.skipped.end(), std::back_inserter(checked.skipped));
  }
  return checked;
}

bool RecordReader::take_record(RecordBatch& batch, std::string& why, size_t& claimed) {
  claimed = 0;
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
  const RecordView record{here() + kHeaderSize, length, offset_, number_};
  if (on_damage_ == OnDamage::kResync && !payload_holds(record)) {
    why = payload_fault(record).what;
    claimed = whole;
    return false;
  }
  if (batch.chunks.empty() || batch.chunks.back() != chunk_) batch.chunks.push_back(chunk_);
  batch.records.push_back(record);
  batch.bytes += static_cast<size_t>(length);
  ++number_;
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

void RecordReader::resync(RecordBatch& batch, std::string why, size_t claimed) {
  Fault note = located(Fault::corrupt(std::move(why)));
  number_++;
  if (const size_t past = claimed == 0 ? 0 : past_bad_payload(claimed); past != 0) {
    at_ += past;
    offset_ += past;
    if (past != claimed) note.what += format("; the next sound header is at byte %" PRIu64, offset_);
    batch.skipped.push_back(std::move(note));
    return;
  }

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

size_t RecordReader::past_bad_payload(size_t claimed) {
  hold(claimed + kHeaderSize);
  const uint8_t* const data = here();
  const bool at_end = held() == claimed;
  if (!at_end && (held() < claimed + kHeaderSize || !header_holds(data + claimed))) return 0;
  // The size leads to a header or to the end. Even so it may be a lie, when a writer died inside the record
  // and another went on: then records that begin inside lead to the same place. (Records that the payload
  // itself holds lead to its end, short of the footer.) From the back, each start is looked at once.
  constexpr size_t kLeast = kHeaderSize + kFooterSize;
  std::vector<size_t> good;  // starts from which records lead there, falling
  for (size_t start = claimed - kLeast; start > 0; --start) {
    if (!header_holds(data + start)) continue;
    const uint64_t length = header_length(data + start);
    if (length > claimed - start - kLeast) continue;
    const size_t next = start + kLeast + static_cast<size_t>(length);
    if (next == claimed || std::binary_search(good.begin(), good.end(), next, std::greater<>()))
      good.push_back(start);
  }
  return good.empty() ? claimed : good.back();
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
