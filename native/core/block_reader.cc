#include "core/block_reader.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <system_error>

namespace feedline {

namespace {

// Records this large make short blocks, whatever `rows` says: memory is bounded by bytes.
constexpr size_t kMaxBlockBytes = size_t{64} << 20;

// Several threads share the work in tickets of at least so many bytes, to meet less often.
constexpr size_t kTicketBytes = size_t{512} << 10;

Fault out_of_memory() { return Fault::io("there is no memory left for the next block", ENOMEM); }

// Decodes records `first` to `last` of the batch, up to the first fault.
DecodedBlock decode_records(ExampleDecoder& decoder, const RecordBatch& batch, size_t first, size_t last,
                            const ReadOptions& options) {
  const bool check = options.verify && !options.skip;  // a reader that skips has checked them already
  DecodedBlock block;
  decoder.begin(last - first);
  for (size_t i = first; i < last; ++i) {
    const RecordView& record = batch.records[i];
    const bool sound = !check || payload_holds(record);
    if (sound && decoder.add(record.payload())) [[likely]]
      continue;
    Fault fault = sound ? std::move(decoder.fault()) : payload_fault(record);
    fault.path = batch.path_of(i);
    fault.record = record.number;
    fault.offset = static_cast<int64_t>(record.offset);
    if (options.skip && fault.kind == FaultKind::kCorrupt) {
      block.skipped.push_back(std::move(fault));
      continue;
    }
    block.fault = std::move(fault);
    break;
  }
  block.rows = decoder.rows();
  block.columns = decoder.finish();
  return block;
}

}  // namespace

BlockReader::BlockReader(std::vector<std::string> files, std::shared_ptr<const Schema> schema,
                         const ReadOptions& options)
    : files_(std::move(files)), schema_(std::move(schema)), options_(options), decoder_(schema_) {
  if (options_.threads < 2) return;
  try {
    for (size_t i = 1; i < options_.threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();
    throw std::system_error(error.code(), "cannot start " + std::to_string(options_.threads) + " threads");
  }
}

BlockReader::~BlockReader() { stop(); }

void BlockReader::stop() {
  {
    std::lock_guard lock(state_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool BlockReader::gather(RecordBatch& batch, Fault& end) {
  batch.clear();
  const size_t enough = options_.threads < 2 ? 0 : kTicketBytes;
  size_t target = options_.rows;  // a whole number of blocks
  size_t max_bytes = kMaxBlockBytes;
  while (!source_done_ && batch.bytes < max_bytes && batch.skipped.size() < kMaxSkipped) {
    if (batch.records.size() == target) {
      if (batch.bytes >= enough) break;
      target += options_.rows;
      max_bytes = batch.bytes + kMaxBlockBytes;
    }
    if (!reader_ || reader_->done()) {
      if (next_file_ == files_.size()) {
        source_done_ = true;
        break;
      }
      const auto on_damage = !options_.skip    ? RecordReader::OnDamage::kStop
                             : options_.verify ? RecordReader::OnDamage::kResync
                                               : RecordReader::OnDamage::kResyncHeaders;
      end = RecordReader::open(files_[next_file_++], options_.compression, on_damage, reader_,
                               [this] { return interrupted(); });
    }
    if (!end) end = reader_->next(target, max_bytes, batch);
    source_done_ = static_cast<bool>(end);
  }
  return !batch.records.empty() || !batch.skipped.empty() || end;
}

bool BlockReader::interrupted() const {
  return stopping_ || (caller_gathers_ && options_.interrupted && options_.interrupted());
}

BlockReader::Ticket BlockReader::decode(ExampleDecoder& decoder, RecordBatch& batch, Fault end) const {
  Ticket ticket;
  size_t note = 0;
  // What is damaged right after a full block comes with the next one, even if that has no rows: so blocks do
  // not depend on the size of a ticket.
  for (size_t first = 0;; first += options_.rows) {
    const size_t last = std::min(first + options_.rows, batch.records.size());
    DecodedBlock& block = ticket.emplace_back(decode_records(decoder, batch, first, last, options_));
    const bool is_last = last < first + options_.rows;
    for (; note < batch.skipped.size() && (is_last || batch.skipped_at[note] < last); ++note) {
      block.skipped.push_back(std::move(batch.skipped[note]));
    }
    const bool all = last == batch.records.size() && note == batch.skipped.size();
    if (block.fault || (all && (is_last || !end))) break;
  }
  if (!ticket.back().fault) ticket.back().fault = std::move(end);
  // The chunks go back to the pool before the next ones are asked for.
  batch.clear();
  return ticket;
}

bool BlockReader::work_once(ExampleDecoder& decoder, RecordBatch& batch,
                            std::unique_lock<std::timed_mutex> source) {
  Fault end;
  bool any = true;
  try {
    any = gather(batch, end);
  } catch (const std::bad_alloc&) {
    end = out_of_memory();
  }
  uint64_t number = 0;
  {
    std::lock_guard state(state_);
    if (!any || end) no_more_ = true;
    number = first_ticket_ + slots_.size();
    if (any) slots_.emplace_back();
  }
  source.unlock();
  if (any) {
    std::optional<Ticket> ticket;
    try {
      ticket = decode(decoder, batch, std::move(end));
    } catch (const std::bad_alloc&) {
      ticket.emplace().emplace_back().fault = out_of_memory();
    }
    std::lock_guard state(state_);
    if (ticket->back().fault) no_more_ = true;
    slots_[number - first_ticket_] = std::move(ticket);
  }
  ready_.notify_one();
  return any;
}

void BlockReader::work() {
  ExampleDecoder decoder(schema_);
  RecordBatch batch;
  while (true) {
    std::unique_lock source(source_);
    {
      std::unique_lock state(state_);
      room_.wait(state, [&] { return stopping_ || no_more_ || has_room(); });
      if (stopping_ || no_more_) return;
    }
    caller_gathers_ = false;
    if (!work_once(decoder, batch, std::move(source))) return;
  }
}

BlockReader::Outcome BlockReader::next(std::chrono::milliseconds patience, DecodedBlock& out) {
  if (ended_) return Outcome::kEnd;
  while (taken_.empty()) {
    if (options_.threads < 2) {
      Fault end;
      if (!gather(batch_, end)) return Outcome::kEnd;
      Ticket ticket = decode(decoder_, batch_, std::move(end));
      std::move(ticket.begin(), ticket.end(), std::back_inserter(taken_));
      break;
    }
    std::unique_lock state(state_);
    const auto settled = [&] { return slots_.empty() ? no_more_ : slots_.front().has_value(); };
    const auto work_left = [&] { return !no_more_ && has_room(); };
    if (!settled() && work_left()) {
      // Wait for the turn to gather rather than for the block: then this thread works while that one decodes.
      state.unlock();
      std::unique_lock source(source_, patience);
      if (!source) return Outcome::kWaiting;
      state.lock();
      if (!settled() && work_left()) {
        state.unlock();
        caller_gathers_ = true;
        (void)work_once(decoder_, batch_, std::move(source));
        continue;
      }
    }
    if (!ready_.wait_for(state, patience, settled)) return Outcome::kWaiting;
    if (slots_.empty()) return Outcome::kEnd;
    Ticket ticket = std::move(*slots_.front());
    slots_.pop_front();
    ++first_ticket_;
    state.unlock();
    room_.notify_one();
    std::move(ticket.begin(), ticket.end(), std::back_inserter(taken_));
  }
  out = std::move(taken_.front());
  taken_.pop_front();
  ended_ = static_cast<bool>(out.fault);
  return Outcome::kBlock;
}

}  // namespace feedline
