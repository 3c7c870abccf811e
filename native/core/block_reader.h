// TFRecord files, one after another -> blocks of decoded rows, in order, by one or several threads.
//
// The work goes in tickets. A thread claims one, a stretch of a plain file, and reads it; when those in front
// of it have done so, it walks over the headers, because where a record begins is known only from the one
// before it; and then it checks and decodes the blocks that are complete with what it found. Only the walk is
// done in turn, and it is short. A file of unknown size (compressed, a pipe), and one whose damage is to be
// skipped, is read in turn as well.
//
// The caller's own thread is one of them: it works while it waits, because waking a thread can take as long
// as decoding a block. At most `threads + kAhead` tickets are under way or waiting.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/example_decoder.h"
#include "core/record_reader.h"
#include "core/row_table.h"

namespace feedline {

struct DecodedBlock {
  size_t rows = 0;
  std::vector<Column> columns;
  std::shared_ptr<const RowTable> table;  // instead of the columns, if rows are wanted
  std::vector<Fault> skipped;             // what was passed over, when damage is to be skipped
  Fault fault;                            // what ends the stream after these rows
  std::optional<Start> next;              // where the records after these rows begin, unless there were none
  std::optional<Start> resume;            // after a fault: where to go on past it
};

struct ReadOptions {
  Compression compression = Compression::kAuto;
  size_t rows = 256;  // of a block; the last may be shorter, and so is one with skipped or very large records
  size_t threads = 1;         // 1: the caller's own
  bool verify = true;         // check the payloads' checksums
  bool skip = false;          // pass over what is damaged
  Interrupted interrupted{};  // asked in the caller's thread only
  Start start{};              // of the records: start.file is an index into the files
  size_t block_bytes =
      size_t{64} << 20;               // of payloads in a block, about: it ends there before it has its rows
  std::optional<RowLayout> layout{};  // give rows of that layout, and no columns
  FileBudgets budgets{};              // that open files count against
};

// Records -> a block of columns, or of rows.
class BlockDecoder {
 public:
  BlockDecoder(const std::shared_ptr<const Schema>& schema, const ReadOptions& options);

  void begin(size_t max_rows);
  // Decodes records `first` to `last` of the batch, up to the first fault.
  void add(const RecordBatch& batch, size_t first, size_t last, DecodedBlock& block);
  void finish(DecodedBlock& block);
  // Of the block that was begun.
  size_t rows() const noexcept { return rows_ ? rows_->rows() : columns_.rows(); }

 private:
  bool add(std::span<const uint8_t> record) { return rows_ ? rows_->add(record) : columns_.add(record); }

  const bool check_;  // payloads
  const bool skip_;
  ExampleDecoder columns_;
  std::optional<RowDecoder> rows_;
  std::vector<std::shared_ptr<const Buffer>> chunks_;  // that the rows of this block point into
};

class BlockReader {
 public:
  BlockReader(std::vector<std::string> files, std::shared_ptr<const Schema> schema,
              const ReadOptions& options);
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  enum class Outcome { kBlock, kEnd, kWaiting };
  // The next block, the end of the data, or kWaiting when nothing came within `patience`. A block with a
  // fault is the last one.
  Outcome next(std::chrono::milliseconds patience, DecodedBlock& out);

  // From any thread: what waits in next() for a pipe gives up.
  void interrupt() noexcept { stopping_ = true; }

 private:
  // Where a block ends in a batch.
  struct Cut {
    size_t records;
    size_t notes;
  };
  // Records that were found in one turn, cut into blocks, and what comes after them.
  struct Found {
    RecordBatch batch;
    std::vector<Cut> cuts;
    Fault end;
    Start after_end;  // where to go on past it

    void clear();
    bool is_cut() const;  // nothing follows the last cut
    void cut() { cuts.push_back({batch.records.size(), batch.skipped.size()}); }
  };
  // What to read for a ticket: a stretch of a file, or, without one, the next records of it. Without a reader
  // the data ends here, perhaps with a fault.
  struct Claim {
    uint64_t ticket = 0;
    std::shared_ptr<RecordReader> reader;
    uint64_t offset = 0;
    size_t size = 0;
    Stretch stretch;
    Fault fault;
    Start after_fault;
  };
  using Ticket = std::vector<DecodedBlock>;
  using Lock = std::unique_lock<std::mutex>;  // of state_

  // The next block, by the caller's thread alone; false at the end of the data.
  bool read_alone(DecodedBlock& block);

  // May a thread claim a ticket now? Under state_, as all that takes a Lock.
  bool may_claim() const;
  uint64_t next_ticket() const { return first_ticket_ + slots_.size(); }
  // Claims the next ticket and reads its stretch.
  Claim claim(Lock& state);
  // The next stretch or file. By the thread that is claiming_.
  Claim find_work(size_t stretch);
  // The rest of a ticket whose turn it is.
  void finish(Claim claim, BlockDecoder& decoder, Found& found, Lock& state);
  // Walks over the records of the claim. By the thread whose turn it is.
  void walk(Claim& claim, Found& found);
  // Walks until the claim is used up or the data ends; then true.
  bool walk_on(Claim& claim, Found& found);
  Ticket decode(BlockDecoder& decoder, Found& found) const;
  bool interrupted() const;
  void work();
  void stop();

  // Tickets beyond one for each thread, so that a thread need not wait for the consumer to come back.
  static constexpr size_t kAhead = 1;

  const std::vector<std::string> files_;
  const std::shared_ptr<const Schema> schema_;
  const ReadOptions options_;

  std::mutex state_;
  std::condition_variable changed_;
  std::deque<std::optional<Ticket>> slots_;  // tickets claimed and not yet taken, oldest first
  uint64_t first_ticket_ = 0;                // of slots_.front()
  uint64_t turn_ = 0;                        // the ticket whose records are to be walked over
  bool claiming_ = false;                    // a thread is looking for the next ticket's work
  bool in_turn_ = false;                     // only the thread whose turn it is can tell what comes next
  bool no_more_ = false;                     // no further ticket will be claimed
  size_t block_bytes_ = 0;                   // of the largest block so far, as stored
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;

  // The claiming thread's.
  size_t next_file_;
  std::shared_ptr<RecordReader> reader_;
  std::optional<uint64_t> next_stretch_;  // where it begins, if the file is read in stretches

  // Theirs whose turn it is.
  RecordBatch carried_;  // records of a block that is not complete
  bool ended_walk_ = false;

  // The caller's.
  BlockDecoder decoder_;
  Found found_;
  size_t rows_before_ = 256;        // what the last block had, for the next one
  std::optional<Claim> claimed_;    // a ticket whose turn has not come
  std::deque<DecodedBlock> taken_;  // blocks of the ticket that is being handed out
  bool ended_ = false;              // a fault was handed out
};

}  // namespace feedline
