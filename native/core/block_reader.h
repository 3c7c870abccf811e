// TFRecord files, one after another -> blocks of decoded rows, in order, by one or several threads.
//
// Finding records needs the bytes before them, so one thread at a time reads and walks the headers; checking
// and decoding what it found is done side by side, a ticket of one or several blocks at a time. The caller's
// own thread is one of them: it works while it waits, because waking a thread can take as long as decoding a
// block. At most `threads + kAhead` tickets are under way or waiting.
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

namespace feedline {

struct DecodedBlock {
  size_t rows = 0;
  std::vector<Column> columns;
  std::vector<Fault> skipped;  // what was passed over, when damage is to be skipped
  Fault fault;                 // what ends the stream after these rows
};

struct ReadOptions {
  Compression compression = Compression::kAuto;
  size_t rows = 256;  // of a block; the last may be shorter, and so is one with skipped or very large records
  size_t threads = 1;                     // 1: the caller's own
  bool verify = true;                     // check the payloads' checksums
  bool skip = false;                      // pass over what is damaged
  ByteSource::Interrupted interrupted{};  // asked in the caller's thread only
};

// Decodes a batch of records, up to the first fault.
void decode_batch(ExampleDecoder& decoder, const RecordBatch& batch, const ReadOptions& options,
                  DecodedBlock& out);

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

 private:
  using Ticket = std::vector<DecodedBlock>;

  // The records of the next ticket, over the ends of files; false when there are none left. `end` is the
  // fault after them. Under source_.
  bool gather(RecordBatch& batch, Fault& end);
  Ticket decode(ExampleDecoder& decoder, RecordBatch& batch, Fault end) const;
  // Gathers and decodes one ticket; false when there are no more. Gives up source_ in between.
  bool work_once(ExampleDecoder& decoder, RecordBatch& batch, std::unique_lock<std::timed_mutex> source);
  bool interrupted() const;
  bool has_room() const { return slots_.size() < options_.threads + kAhead; }
  void work();
  void stop();

  // Tickets beyond one for each thread, so that a thread need not wait for the consumer to come back.
  static constexpr size_t kAhead = 1;

  const std::vector<std::string> files_;
  const std::shared_ptr<const Schema> schema_;
  const ReadOptions options_;

  std::timed_mutex source_;  // held while records are gathered; taken before state_
  size_t next_file_ = 0;
  std::unique_ptr<RecordReader> reader_;
  bool source_done_ = false;
  bool caller_gathers_ = true;  // the thread that holds source_ is the caller's

  std::mutex state_;
  std::condition_variable room_;
  std::condition_variable ready_;
  std::deque<std::optional<Ticket>> slots_;  // tickets begun and not yet taken, oldest first
  uint64_t first_ticket_ = 0;                // of slots_.front()
  bool no_more_ = false;                     // no further ticket will be begun
  std::atomic<bool> stopping_ = false;       // set under state_
  std::vector<std::thread> workers_;

  // The caller's.
  ExampleDecoder decoder_;
  RecordBatch batch_;
  std::deque<DecodedBlock> taken_;  // blocks of the ticket that is being handed out
  bool ended_ = false;              // a fault was handed out
};

}  // namespace feedline
