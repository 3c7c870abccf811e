#include "core/block_reader.h"

#include <cerrno>
#include <new>
#include <system_error>

namespace feedline {

namespace {

// Blocks beyond one for each thread, so that a thread need not wait for the consumer to come back.
constexpr size_t kAhead = 2;

// Records this large make short blocks, whatever `rows` says: memory is bounded by bytes.
constexpr size_t kMaxBlockBytes = size_t{64} << 20;

Fault out_of_memory() { return Fault::io("there is no memory left for the next block", ENOMEM); }

}  // namespace

void decode_batch(ExampleDecoder& decoder, const RecordBatch& batch, const ReadOptions& options,
                  DecodedBlock& out) {
  const bool check = options.verify && !options.skip;  // a reader that skips has checked them already
  decoder.begin(batch.records.size());
  for (size_t i = 0; i < batch.records.size(); ++i) {
    const RecordView& record = batch.records[i];
    const bool sound = !check || payload_holds(record);
    if (sound && decoder.add(record.payload())) [[likely]]
      continue;
    Fault fault = sound ? std::move(decoder.fault()) : payload_fault(record);
    fault.path = batch.path_of(i);
    fault.record = record.number;
    fault.offset = static_cast<int64_t>(record.offset);
    if (options.skip && fault.kind == FaultKind::kCorrupt) {
      out.skipped.push_back(std::move(fault));
      continue;
    }
    out.fault = std::move(fault);
    break;
  }
  out.rows = decoder.rows();
  out.columns = decoder.finish();
}

BlockReader::BlockReader(std::vector<std::string> files, std::shared_ptr<const Schema> schema,
                         const ReadOptions& options)
    : files_(std::move(files)), schema_(std::move(schema)), options_(options), decoder_(schema_) {
  if (options_.threads < 2) return;
  try {
    for (size_t i = 0; i < options_.threads; ++i) workers_.emplace_back([this] { work(); });
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
  while (!source_done_ && batch.records.size() < options_.rows && batch.bytes < kMaxBlockBytes) {
    if (!reader_ || reader_->done()) {
      if (next_file_ == files_.size()) {
        source_done_ = true;
        break;
      }
      const auto on_damage = !options_.skip    ? RecordReader::OnDamage::kStop
                             : options_.verify ? RecordReader::OnDamage::kResync
                                               : RecordReader::OnDamage::kResyncHeaders;
      auto interrupted = options_.threads < 2 ? options_.interrupted : [this] { return stopping_.load(); };
      end = RecordReader::open(files_[next_file_++], options_.compression, on_damage, reader_,
                               std::move(interrupted));
    }
    if (!end) end = reader_->next(options_.rows, kMaxBlockBytes, batch);
    source_done_ = static_cast<bool>(end);
  }
  return !batch.records.empty() || !batch.skipped.empty() || end;
}

DecodedBlock BlockReader::decode(ExampleDecoder& decoder, RecordBatch& batch, Fault end) const {
  DecodedBlock block;
  block.skipped = std::move(batch.skipped);
  decode_batch(decoder, batch, options_, block);
  if (!block.fault) block.fault = std::move(end);
  return block;
}

void BlockReader::work() {
  ExampleDecoder decoder(schema_);
  RecordBatch batch;
  while (true) {
    Fault end;
    uint64_t ticket = 0;
    {
      std::lock_guard source(source_);
      {
        std::unique_lock state(state_);
        room_.wait(state, [&] { return stopping_ || no_more_ || slots_.size() < options_.threads + kAhead; });
        if (stopping_ || no_more_) return;
      }
      bool any = true;
      try {
        any = gather(batch, end);
      } catch (const std::bad_alloc&) {
        end = out_of_memory();
      }
      std::lock_guard state(state_);
      if (!any || end) no_more_ = true;
      if (!any) {
        ready_.notify_all();
        return;
      }
      ticket = first_ticket_ + slots_.size();
      slots_.emplace_back();
    }
    std::optional<DecodedBlock> block;
    try {
      block = decode(decoder, batch, std::move(end));
    } catch (const std::bad_alloc&) {
      block.emplace().fault = out_of_memory();
    }
    // The chunks go back to the pool before the next ones are asked for.
    batch.clear();
    {
      std::lock_guard state(state_);
      if (block->fault) no_more_ = true;
      slots_[ticket - first_ticket_] = std::move(block);
    }
    ready_.notify_all();
  }
}

BlockReader::Outcome BlockReader::next(std::chrono::milliseconds patience, DecodedBlock& out) {
  if (ended_) return Outcome::kEnd;
  if (workers_.empty()) {
    Fault end;
    if (!gather(batch_, end)) return Outcome::kEnd;
    out = decode(decoder_, batch_, std::move(end));
    ended_ = static_cast<bool>(out.fault);
    return Outcome::kBlock;
  }
  std::unique_lock state(state_);
  const auto settled = [&] { return slots_.empty() ? no_more_ : slots_.front().has_value(); };
  if (!ready_.wait_for(state, patience, settled)) return Outcome::kWaiting;
  if (slots_.empty()) return Outcome::kEnd;
  out = std::move(*slots_.front());
  slots_.pop_front();
  ++first_ticket_;
  ended_ = static_cast<bool>(out.fault);
  state.unlock();
  room_.notify_one();
  return Outcome::kBlock;
}

}  // namespace feedline
