#include "core/turn_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>

#include "core/framing.h"
#include "core/thread_pool.h"

namespace feedline {

namespace {

// Of a file at a time: about a chunk of the reader's.
constexpr size_t kBytes = size_t{256} << 10;

// Blocks that are under way or waiting: one for the caller, and some for the threads.
constexpr size_t kBlocksAhead = 4;

}  // namespace

struct TurnReader::Work : std::enable_shared_from_this<Work> {
  // A file at work.
  struct Lane {
    Entry entry;
    std::unique_ptr<RecordReader> reader;
    RecordBatch batch;
    size_t at = 0;  // of the batch, the next record
    bool ended = false;
  };
  // What one thread finds and decodes.
  struct Found {
    RecordBatch batch;
    std::vector<Start> begins;  // of each file
    bool last = false;
  };
  struct Made {
    Block block;
    bool last = false;
  };

  Work(std::vector<Entry> files, std::shared_ptr<const Schema> features, const ReadOptions& how, size_t turn)
      : schema(std::move(features)), options(how), records_in_turn(turn) {
    for (Entry& entry : files) {
      places.push_back(entry.start);
      lanes.emplace_back().entry = std::move(entry);
    }
    const size_t round = lanes.size() * records_in_turn;
    rows = std::max<size_t>(options.rows / round, 1) * round;
  }

  // --- Finding, under `walking` ---

  bool open(Lane& lane) const {
    // Not a pipe: nobody could interrupt the wait for it.
    struct stat status;
    if (::stat(lane.entry.path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    return !RecordReader::open(lane.entry.path, options.compression, RecordReader::OnDamage::kStop,
                               lane.reader, {}, lane.entry.start, options.budgets);
  }

  // Has the lane a record? Reads more of its file if need be.
  bool has_record(Lane& lane) const {
    while (!lane.ended && lane.at == lane.batch.records.size()) {
      lane.at = 0;
      lane.batch.clear();
      if (!lane.reader && !open(lane)) lane.ended = true;
      // A fault is not kept: the reader that goes on from here meets it, too.
      if (!lane.ended) (void)lane.reader->next(SIZE_MAX, kBytes, lane.batch);
      if (lane.batch.records.empty()) lane.ended = true;
      lane.at = static_cast<size_t>(std::min<uint64_t>(lane.entry.drop, lane.batch.records.size()));
      lane.entry.drop -= lane.at;
    }
    return !lane.ended;
  }

  void find(Found& found) {
    found.begins = places;
    RecordBatch& batch = found.batch;
    batch.runs.push_back({0, path, 0});
    const auto keep_chunks = [&](const Lane& lane) {
      batch.chunks.insert(batch.chunks.end(), lane.batch.chunks.begin(), lane.batch.chunks.end());
    };
    for (const Lane& lane : lanes) {
      if (lane.at < lane.batch.records.size()) keep_chunks(lane);
    }
    while (batch.records.size() < rows && batch.bytes < options.block_bytes) {
      for (size_t number = 0; number < lanes.size(); ++number) {
        Lane& lane = lanes[number];
        for (size_t i = 0; i < records_in_turn; ++i) {
          if (lane.at == lane.batch.records.size()) {
            if (!has_record(lane)) {
              found.last = true;
              return;
            }
            keep_chunks(lane);
          }
          const RecordView& record = lane.batch.records[lane.at++];
          batch.records.push_back(record);
          batch.bytes += static_cast<size_t>(record.size);
          places[number] = after(number, record);
        }
      }
    }
  }

  static Start after(size_t file, const RecordView& record) {
    return {file, record.offset + kFraming + record.size, record.number + 1};
  }

  // --- Decoding ---

  void decode(BlockDecoder& decoder, Found& found, Made& made) const {
    DecodedBlock& block = made.block.decoded;
    const RecordBatch& batch = found.batch;
    decoder.begin(batch.records.size());
    decoder.add(batch, 0, batch.records.size(), block);
    decoder.finish(block);
    made.last = found.last || block.fault;
    block.fault = {};
    made.block.places = std::move(found.begins);
    for (size_t i = 0; i < block.rows; ++i) {
      const size_t file = i / records_in_turn % lanes.size();
      made.block.places[file] = after(file, batch.records[i]);
    }
  }

  // --- Sharing the work, under `mutex` ---

  bool is_wanted() const { return !ended && !closed && made.size() + waiting < kBlocksAhead; }

  // Makes a block, which must be wanted. Gives up the lock meanwhile.
  void make(std::unique_lock<std::mutex>& lock) {
    ++working;
    ++waiting;
    std::unique_ptr<BlockDecoder> decoder;
    if (!decoders.empty()) {
      decoder = std::move(decoders.back());
      decoders.pop_back();
    }
    lock.unlock();
    Found found;
    Made one;
    std::optional<uint64_t> ticket;
    try {
      {
        std::lock_guard walk(walking);
        lock.lock();
        const bool has_ended = ended;
        --waiting;
        if (!has_ended) {
          made.emplace_back();
          ticket = first + made.size() - 1;
        }
        lock.unlock();
        if (ticket) find(found);
        if (found.last) {
          lock.lock();
          ended = true;
          lock.unlock();
        }
      }
      if (!decoder) decoder = std::make_unique<BlockDecoder>(schema, options);
      if (ticket) decode(*decoder, found, one);
    } catch (const std::bad_alloc&) {
      // Less memory may do for those who go on from here.
      if (lock.owns_lock()) lock.unlock();
      one = {};
      one.last = true;
    }
    found.batch.clear();
    lock.lock();
    if (decoder) decoders.push_back(std::move(decoder));
    if (ticket) {
      ended = ended || one.last;
      made[*ticket - first] = std::move(one);
    }
    --working;
    changed.notify_all();
  }

  void make_ahead() {
    while (is_wanted() && made.size() + waiting + queued < kBlocksAhead) {
      ++queued;
      run_soon([self = shared_from_this()] {
        std::unique_lock lock(self->mutex);
        --self->queued;
        if (self->is_wanted()) self->make(lock);
        self->make_ahead();
      });
    }
  }

  const std::shared_ptr<const Schema> schema;
  const ReadOptions options;
  const size_t records_in_turn;
  size_t rows = 0;  // of a block
  const std::shared_ptr<const std::string> path = std::make_shared<const std::string>();
  const pid_t owner = getpid();

  std::mutex walking;
  std::vector<Lane> lanes;
  std::vector<Start> places;  // after what was found

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::optional<Made>> made;  // in order; those under way are empty
  uint64_t first = 0;                    // the number of made.front()
  size_t waiting = 0;                    // threads that have not begun to find
  size_t working = 0;
  size_t queued = 0;
  bool ended = false;  // nothing more is found
  bool closed = false;
  std::vector<std::unique_ptr<BlockDecoder>> decoders;
};

TurnReader::TurnReader(std::vector<Entry> files, std::shared_ptr<const Schema> schema,
                       const ReadOptions& options, size_t turn)
    : work_(std::make_shared<Work>(std::move(files), std::move(schema), options, turn)) {
  std::unique_lock lock(work_->mutex);
  work_->make_ahead();
}

TurnReader::~TurnReader() {
  if (getpid() != work_->owner) return;  // a forked child lacks the threads
  std::unique_lock lock(work_->mutex);
  work_->closed = true;
  work_->changed.wait(lock, [this] { return work_->working == 0; });
  // Now, and not when a job that may be in the pool lets go of them: so no file stays open.
  work_->lanes.clear();
}

BlockReader::Outcome TurnReader::next(std::chrono::milliseconds patience, Block& out) {
  using Outcome = BlockReader::Outcome;
  if (getpid() != work_->owner) return Outcome::kEnd;
  std::unique_lock lock(work_->mutex);
  auto& made = work_->made;
  while (made.empty() || !made.front()) {
    if (work_->is_wanted()) {
      work_->make(lock);
    } else if (made.empty() && work_->working == 0) {
      return Outcome::kEnd;
    } else if (work_->changed.wait_for(lock, patience) == std::cv_status::timeout) {
      return Outcome::kWaiting;
    }
  }
  Work::Made one = std::move(*made.front());
  made.pop_front();
  ++work_->first;
  if (one.last) {
    // What others have found behind it must not come.
    work_->ended = true;
    work_->changed.wait(lock, [this] { return work_->working == 0; });
    work_->first += made.size();
    made.clear();
  }
  work_->make_ahead();
  if (one.block.decoded.rows == 0) return Outcome::kEnd;
  out = std::move(one.block);
  return Outcome::kBlock;
}

}  // namespace feedline
