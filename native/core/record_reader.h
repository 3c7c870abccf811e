// One TFRecord file, read forward in chunks: records are found where they lie and never copied, except the
// one that straddles the end of a chunk.
//
// The reader checks headers. Payload checksums are left to the caller, so that several threads can share that
// work; only a reader that resynchronises checks them itself, because they tell whether a length can be
// believed. Memory: the chunk being read plus those that a RecordBatch still refers to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/fault.h"
#include "core/source.h"

namespace feedline {

// A record inside a chunk. Its footer (4 bytes) follows `data[size]`.
struct RecordView {
  const uint8_t* data;
  uint64_t size;
  uint64_t offset;  // of its header, in the uncompressed file
  int64_t number;   // counted from 0 in its file; a damaged stretch counts as one

  std::span<const uint8_t> payload() const noexcept { return {data, static_cast<size_t>(size)}; }
};

// Where to begin in a file: at the header at `offset`, which is that of record `number`. `file` is the
// caller's own number for it.
struct Start {
  size_t file = 0;
  uint64_t offset = 0;
  int64_t number = 0;
};

// Notes of damage in one batch: a file of nothing else must not fill the memory with them.
inline constexpr size_t kMaxSkipped = 4096;

// Records in order, perhaps from several files, and what keeps their bytes alive.
struct RecordBatch {
  struct Run {  // the records from `first` up to the next run's come from `path`
    size_t first;
    std::shared_ptr<const std::string> path;
    size_t file;  // as in Start
  };

  std::vector<RecordView> records;
  std::vector<Run> runs;
  std::vector<std::shared_ptr<const Buffer>> chunks;
  std::vector<Fault> skipped;      // damaged stretches that were passed over, in order
  std::vector<size_t> skipped_at;  // for each: how many records of the batch are in front of it
  size_t bytes = 0;                // payload bytes in all

  const std::string& path_of(size_t record) const { return *run_of(record).path; }
  // Where the record after this one begins.
  Start after(size_t record) const;
  void skip(Fault fault);
  void append(const RecordBatch& more);
  void unskip();  // takes the last note back
  // Takes what begins at a record and at a note off the end.
  RecordBatch split(size_t first_record, size_t first_note);
  void clear();

 private:
  const Run& run_of(size_t record) const;
};

// Bytes of a plain file that were read before it was their turn.
struct Stretch {
  std::shared_ptr<Buffer> chunk;
  size_t size = 0;    // of what was read into `chunk`
  bool last = false;  // nothing follows
  Fault fault;        // what ended it early
};

// Compares the payload with its footer. On a mismatch the fault names the record, but not the file.
bool payload_holds(const RecordView& record) noexcept;
Fault payload_fault(const RecordView& record);

class RecordReader {
 public:
  // Small enough to stay in a core's L2 cache between the read and the parse, large enough to hide the calls.
  static constexpr size_t kReadSize = size_t{256} << 10;

  enum class OnDamage {
    kStop,    // a damaged header ends the file with a fault
    kResync,  // damage is noted in `skipped`, and reading goes on at the next header whose checksum holds
    kResyncHeaders,  // the same, but payloads are not checked
  };

  static Fault open(const std::string& path, Compression compression, OnDamage on_damage,
                    std::unique_ptr<RecordReader>& out, Interrupted interrupted = {}, const Start& start = {},
                    FileBudgets budgets = {});

  // Appends records to `batch` until it holds `max_records`, `max_bytes` of payload or kMaxSkipped notes, or
  // the file ends (then `done()`). After a fault the reader is done; what was appended before is good.
  Fault next(size_t max_records, size_t max_bytes, RecordBatch& batch);

  // Checks the records that follow, up to `max_bytes` of payload, without keeping any: for a reader that
  // resynchronises.
  struct Checked {
    uint64_t good = 0;           // records
    uint64_t bytes = 0;          // of their payload
    std::vector<Fault> skipped;  // what is damaged, in order
    Fault fault;                 // what ended the file
  };
  Checked check(size_t max_bytes);

  // A plain file of known size can be read by several threads, a stretch each: read_stretch() may be called
  // at any time by anyone, and the stretches are then fed in order. A reader that is fed reads nothing
  // itself: next() returns, without being done(), when it wants more. Only where damage stops it.
  Stretch read_stretch(uint64_t offset, size_t size) const;
  void feed(Stretch stretch);

  // How much is read at a time, where a record does not need more.
  void read_by(size_t bytes) noexcept { read_size_ = bytes; }

  bool done() const noexcept { return done_; }
  size_t file() const noexcept { return file_; }
  const ByteSource& source() const noexcept { return *source_; }

 private:
  RecordReader(std::unique_ptr<ByteSource> source, std::string path, OnDamage on_damage, const Start& start);

  size_t held() const noexcept { return end_ - at_; }
  const uint8_t* here() const noexcept { return chunk_->data() + at_; }

  struct Damage {
    std::string why;
    size_t claimed = 0;      // the size with header and footer, if only the payload is damaged
    bool cut_short = false;  // the data ends inside the record
  };

  enum class Taken { kRecord, kDamaged, kHungry };

  // Makes `size` bytes from `here()` on contiguous, fewer only where the data ends, `broken_` begins, or the
  // next stretch is wanted.
  void hold(size_t size);
  void hold_from_stretch(size_t size);
  // Records in the old chunk stay where they are; only the part of the next one moves.
  void move_to_chunk(size_t size);
  // Bytes from `here()` to the end of the data, where that is known.
  std::optional<uint64_t> left() const noexcept;
  // Reads the record at `here()` into `batch`.
  Taken take_record(RecordBatch& batch, Damage& damage);
  // From a damaged record at `here()` to the next header that holds, or to the end.
  void resync(RecordBatch& batch, Damage damage);
  // How far to go from a record whose payload is damaged, so that no good record is lost; 0 when its size
  // leads nowhere, so that it cannot be believed.
  size_t past_bad_payload(size_t claimed);
  // Has the data ended before the end that the file had when it was opened?
  bool is_short() const noexcept { return exhausted_ && !broken_ && size_ && offset_ + held() < *size_; }
  // Is the record at `here()`, which the end of the file cuts short, one that is just being appended?
  bool unfinished() const noexcept;
  // Is there a record `start` bytes from `here()` whose header, which holds, says the truth?
  bool sound_record_at(size_t start, uint64_t length);
  // Goes on to the next header that holds; false when there is none, and all is read.
  bool find_header();
  Fault located(Fault fault) const;
  // The source failed, or a record is damaged in a file that ends there: after the last good record.
  Fault finish(Fault fault, RecordBatch& batch);

  std::unique_ptr<ByteSource> source_;
  const std::optional<uint64_t> size_;  // of the uncompressed file, where it is known
  std::shared_ptr<const std::string> path_;
  const size_t file_;  // the caller's number for it
  OnDamage on_damage_;

  size_t read_size_ = kReadSize;
  std::shared_ptr<Buffer> chunk_;
  size_t at_ = 0;    // the next unread byte in chunk_
  size_t end_ = 0;   // the end of the file's bytes in chunk_
  uint64_t offset_;  // of `here()` in the uncompressed file
  int64_t number_;   // of the next record
  bool exhausted_ = false;
  bool done_ = false;
  Fault broken_;  // what the source said when it failed; the bytes before it are still to be read

  bool fed_ = false;
  Stretch stretch_;        // what was fed last
  size_t stretch_at_ = 0;  // the first byte of it that is not yet in chunk_

  std::string search_why_;            // why the last search for a header began
  uint64_t search_end_ = UINT64_MAX;  // and where it led
  uint64_t wasted_ = 0;               // bytes of payloads that were checked in vain
};

}  // namespace feedline
