#include "core/block_reader.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <system_error>

#include "core/framing.h"

namespace feedline {

namespace {

// What one thread alone reads before it decodes it: about a chunk of the reader's.
constexpr size_t kChunkBytes = RecordReader::kReadSize;

// Blocks are smaller than this only under a memory limit, when many files are read by turns. Then chunks are
// as small: each reader has one.
constexpr size_t kSmallBlock = size_t{64} << 10, kSmallestChunk = 4096;

size_t read_size(size_t block_bytes) {
  return block_bytes < kSmallBlock ? std::max(block_bytes, kSmallestChunk) : kChunkBytes;
}

// Several threads share the work in tickets of at least so many bytes, to meet less often.
constexpr size_t kTicketBytes = size_t{512} << 10;

// A batch as it is stored.
size_t stored_bytes(const RecordBatch& batch) { return batch.bytes + batch.records.size() * kFraming; }

// Is this a thread of a reader's, and not its caller's?
thread_local bool is_worker = false;

Fault out_of_memory() { return Fault::io("there is no memory left for the next block", ENOMEM); }

}  // namespace

BlockDecoder::BlockDecoder(const std::shared_ptr<const Schema>& schema, const ReadOptions& options)
    : check_(options.verify && !options.skip),  // a reader that skips has checked them already
      skip_(options.skip),
      columns_(schema) {
  if (options.layout) rows_.emplace(schema, *options.layout);
}

void BlockDecoder::begin(size_t max_rows) {
  chunks_.clear();
  rows_ ? rows_->begin(max_rows) : columns_.begin(max_rows);
}

void BlockDecoder::add(const RecordBatch& batch, size_t first, size_t last, DecodedBlock& block) {
  if (rows_) chunks_.insert(chunks_.end(), batch.chunks.begin(), batch.chunks.end());
  if (first < last) block.next = batch.after(last - 1);
  for (size_t i = first; i < last; ++i) {
    const RecordView& record = batch.records[i];
    const bool sound = !check_ || payload_holds(record);
    if (sound && add(record.payload())) [[likely]]
      continue;
    Fault fault = sound ? std::move(rows_ ? rows_->fault() : columns_.fault()) : payload_fault(record);
    fault.path = batch.path_of(i);
    fault.record = record.number;
    fault.offset = static_cast<int64_t>(record.offset);
    if (skip_ && fault.kind == FaultKind::kCorrupt) {
      block.skipped.push_back(std::move(fault));
      continue;
    }
    block.fault = std::move(fault);
    block.next.reset();
    if (i > first) block.next = batch.after(i - 1);
    block.resume = batch.after(i);
    return;
  }
}

void BlockDecoder::finish(DecodedBlock& block) {
  if (!rows_) {
    block.rows = columns_.rows();
    block.columns = columns_.finish();
    return;
  }
  RowTable table = rows_->finish();
  block.rows = table.rows;
  std::move(chunks_.begin(), chunks_.end(), std::back_inserter(table.chunks));
  block.table = std::make_shared<const RowTable>(std::move(table));
}

BlockReader::BlockReader(std::vector<std::string> files, std::shared_ptr<const Schema> schema,
                         const ReadOptions& options)
    : files_(std::move(files)),
      schema_(std::move(schema)),
      options_(options),
      next_file_(options.start.file),
      decoder_(schema_, options_) {
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
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void BlockReader::Found::clear() {
  batch.clear();
  cuts.clear();
  end = {};
}

bool BlockReader::Found::is_cut() const {
  const Cut last = cuts.empty() ? Cut{0, 0} : cuts.back();
  return last.records == batch.records.size() && last.notes == batch.skipped.size();
}

bool BlockReader::read_alone(DecodedBlock& block) {
  decoder_.begin(std::min(options_.rows, rows_before_));
  size_t records = 0, bytes = 0, notes = 0;
  while (records < options_.rows && bytes < options_.block_bytes && notes < kMaxSkipped && !block.fault) {
    Claim claim = find_work(0);
    if (!claim.reader) {
      if (claim.fault) block.resume = claim.after_fault;
      block.fault = std::move(claim.fault);
      break;
    }
    RecordBatch& batch = found_.batch;
    batch.clear();
    // A chunk at a time: it is decoded while it is in the cache, and its memory serves for the next.
    const size_t max_bytes = std::min(kChunkBytes, options_.block_bytes - bytes);
    Fault end = claim.reader->next(options_.rows - records, max_bytes, batch);
    records += batch.records.size();
    bytes += batch.bytes;
    notes += batch.skipped.size();
    decoder_.add(batch, 0, batch.records.size(), block);
    std::move(batch.skipped.begin(), batch.skipped.end(), std::back_inserter(block.skipped));
    if (end && !block.fault) {
      block.fault = std::move(end);
      block.resume = Start{claim.reader->file() + 1};
    }
  }
  rows_before_ = records;
  decoder_.finish(block);
  return records != 0 || notes != 0 || block.fault;
}

bool BlockReader::may_claim() const {
  return !claiming_ && !no_more_ && slots_.size() < options_.threads + kAhead &&
         (!in_turn_ || turn_ == next_ticket());
}

BlockReader::Claim BlockReader::claim(Lock& state) {
  claiming_ = true;
  const size_t stretch = std::clamp(block_bytes_, kTicketBytes, std::max(kTicketBytes, options_.block_bytes));
  state.unlock();
  Claim claim = find_work(stretch);
  state.lock();
  claiming_ = false;
  in_turn_ = claim.size == 0;
  no_more_ = no_more_ || !claim.reader;
  claim.ticket = next_ticket();
  slots_.emplace_back();
  changed_.notify_all();
  if (claim.size == 0) return claim;

  state.unlock();
  try {
    claim.stretch = claim.reader->read_stretch(claim.offset, claim.size);
  } catch (const std::bad_alloc&) {
    claim.after_fault = Start{claim.reader->file() + 1};
    claim.reader.reset();
    claim.fault = out_of_memory();
  }
  state.lock();
  return claim;
}

BlockReader::Claim BlockReader::find_work(size_t stretch) {
  Claim claim;
  while (true) {
    if (reader_ && next_stretch_) {
      const uint64_t left = *reader_->source().size() - *next_stretch_;
      if (left != 0) {
        claim.reader = reader_;
        claim.offset = *next_stretch_;
        claim.size = static_cast<size_t>(std::min<uint64_t>(left, stretch));
        *next_stretch_ += claim.size;
        return claim;
      }
    } else if (reader_ && !reader_->done()) {
      claim.reader = reader_;
      return claim;
    }
    reader_.reset();
    if (next_file_ >= files_.size()) return claim;
    const auto on_damage = !options_.skip    ? RecordReader::OnDamage::kStop
                           : options_.verify ? RecordReader::OnDamage::kResync
                                             : RecordReader::OnDamage::kResyncHeaders;
    const Start start = next_file_ == options_.start.file ? options_.start : Start{next_file_};
    try {
      std::unique_ptr<RecordReader> opened;
      claim.fault = RecordReader::open(
          files_[next_file_], options_.compression, on_damage, opened, [this] { return interrupted(); },
          start, options_.budgets);
      reader_ = std::move(opened);
      if (reader_) reader_->read_by(read_size(options_.block_bytes));
      ++next_file_;
    } catch (const std::bad_alloc&) {
      claim.fault = out_of_memory();
    }
    claim.after_fault = Start{next_file_};
    if (claim.fault) return claim;
    next_stretch_.reset();
    if (options_.threads > 1 && !options_.skip && reader_->source().size()) next_stretch_ = start.offset;
  }
}

bool BlockReader::interrupted() const {
  return stopping_ || (!is_worker && options_.interrupted && options_.interrupted());
}

void BlockReader::walk(Claim& claim, Found& found) {
  found.clear();
  if (ended_walk_) return;
  found.batch.append(carried_);
  carried_.clear();
  ended_walk_ = walk_on(claim, found);
  if (ended_walk_) {
    if (!found.is_cut() || found.end) found.cut();
  } else if (!found.is_cut()) {
    const Cut last = found.cuts.empty() ? Cut{0, 0} : found.cuts.back();
    carried_ = found.batch.split(last.records, last.notes);
  }
}

bool BlockReader::walk_on(Claim& claim, Found& found) {
  if (!claim.reader) {
    found.end = std::move(claim.fault);
    found.after_end = claim.after_fault;
    return true;
  }
  found.after_end = Start{claim.reader->file() + 1};
  const bool fed = claim.size != 0;
  if (fed) claim.reader->feed(std::move(claim.stretch));
  RecordBatch& batch = found.batch;
  size_t max_records = options_.rows;
  size_t max_bytes = options_.block_bytes;
  while (true) {
    found.end = claim.reader->next(max_records, max_bytes, batch);
    if (found.end) return true;
    const bool complete = batch.records.size() == max_records || batch.bytes >= max_bytes ||
                          batch.skipped.size() >= kMaxSkipped;
    if (!complete) return false;  // the file ends, or the stretch
    found.cut();
    max_records = batch.records.size() + options_.rows;
    max_bytes = batch.bytes + options_.block_bytes;
    // Notes are counted by the batch, so a block that has any is the last one.
    if (!fed && (batch.bytes >= kTicketBytes || !batch.skipped.empty())) return false;
  }
}

BlockReader::Ticket BlockReader::decode(BlockDecoder& decoder, Found& found) const {
  Ticket ticket;
  Cut from{0, 0};
  for (const Cut& to : found.cuts) {
    DecodedBlock& block = ticket.emplace_back();
    decoder.begin(to.records - from.records);
    decoder.add(found.batch, from.records, to.records, block);
    decoder.finish(block);
    for (size_t note = from.notes; note < to.notes; ++note)
      block.skipped.push_back(std::move(found.batch.skipped[note]));
    if (block.fault) break;
    from = to;
  }
  if (found.end && !ticket.back().fault) {
    ticket.back().fault = std::move(found.end);
    ticket.back().resume = found.after_end;
  }
  // The chunks go back to the pool before the next ones are asked for.
  found.clear();
  return ticket;
}

void BlockReader::finish(Claim claim, BlockDecoder& decoder, Found& found, Lock& state) {
  state.unlock();
  try {
    walk(claim, found);
  } catch (const std::bad_alloc&) {
    found.clear();
    found.cut();
    found.end = out_of_memory();
    ended_walk_ = true;
  }
  state.lock();
  ++turn_;
  no_more_ = no_more_ || ended_walk_;
  const size_t blocks = std::max<size_t>(found.cuts.size(), 1);
  block_bytes_ = std::max({block_bytes_, stored_bytes(found.batch) / blocks, stored_bytes(carried_)});
  changed_.notify_all();
  state.unlock();
  std::optional<Ticket> ticket;
  try {
    ticket = decode(decoder, found);
  } catch (const std::bad_alloc&) {
    ticket.emplace().emplace_back().fault = out_of_memory();
  }
  state.lock();
  if (!ticket->empty() && ticket->back().fault) no_more_ = true;
  slots_[claim.ticket - first_ticket_] = std::move(ticket);
  changed_.notify_all();
}

void BlockReader::work() {
  is_worker = true;
  BlockDecoder decoder(schema_, options_);
  Found found;
  Lock state(state_);
  while (true) {
    changed_.wait(state, [&] { return stopping_ || no_more_ || may_claim(); });
    if (stopping_ || no_more_) return;
    Claim claimed = claim(state);
    changed_.wait(state, [&] { return stopping_ || turn_ == claimed.ticket; });
    if (stopping_) return;
    finish(std::move(claimed), decoder, found, state);
  }
}

BlockReader::Outcome BlockReader::next(std::chrono::milliseconds patience, DecodedBlock& out) {
  if (ended_) return Outcome::kEnd;
  if (options_.threads < 2) {
    out = {};
    if (!read_alone(out)) return Outcome::kEnd;
    ended_ = static_cast<bool>(out.fault);
    return Outcome::kBlock;
  }
  while (taken_.empty()) {
    Lock state(state_);
    if (!claimed_) {
      const auto settled = [&] { return slots_.empty() ? no_more_ : slots_.front().has_value(); };
      if (!changed_.wait_for(state, patience, [&] { return settled() || may_claim(); }))
        return Outcome::kWaiting;
      if (settled()) {
        if (slots_.empty()) return Outcome::kEnd;
        Ticket ticket = std::move(*slots_.front());
        slots_.pop_front();
        ++first_ticket_;
        changed_.notify_all();
        state.unlock();
        std::move(ticket.begin(), ticket.end(), std::back_inserter(taken_));
        continue;
      }
      claimed_ = claim(state);
    }
    // Before anything else: the other threads wait for this turn.
    if (!changed_.wait_for(state, patience, [&] { return turn_ == claimed_->ticket; }))
      return Outcome::kWaiting;
    finish(std::move(*claimed_), decoder_, found_, state);
    claimed_.reset();
  }
  out = std::move(taken_.front());
  taken_.pop_front();
  ended_ = static_cast<bool>(out.fault);
  return Outcome::kBlock;
}

}  // namespace feedline
