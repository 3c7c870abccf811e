#include "core/read_ahead.h"

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <new>

#include "core/thread_pool.h"

namespace feedline {

struct ReadAhead::Work : std::enable_shared_from_this<Work> {
  enum class State { kWanted, kMaking, kMade };

  // Makes the next block, unless somebody has begun to. Gives up the lock meanwhile.
  void make(std::unique_lock<std::mutex>& lock, bool caller) {
    if (state != State::kWanted || !reader) return;
    state = State::kMaking;
    caller_makes = caller;
    lock.unlock();
    block = {};
    try {
      outcome = reader->next(std::chrono::milliseconds(0), block);
    } catch (const std::bad_alloc&) {
      outcome = BlockReader::Outcome::kBlock;
      block.fault = Fault::io("there is no memory left for the next block", ENOMEM);
    }
    lock.lock();
    state = State::kMade;
    changed.notify_all();
  }

  void make_ahead() {
    run_soon([self = shared_from_this()] {
      std::unique_lock lock(self->mutex);
      self->make(lock, /*caller=*/false);
    });
  }

  std::mutex mutex;
  std::condition_variable changed;
  State state = State::kWanted;
  // Of the thread that is making; else under the mutex.
  std::unique_ptr<BlockReader> reader;  // none when closed
  BlockReader::Outcome outcome = BlockReader::Outcome::kEnd;
  DecodedBlock block;
  bool caller_makes = false;
};

ReadAhead::ReadAhead(std::vector<std::string> files, std::shared_ptr<const Schema> schema,
                     ReadOptions options)
    : work_(std::make_shared<Work>()) {
  options.threads = 1;
  options.interrupted = [work = work_.get(), asked = options.interrupted] {
    return work->caller_makes && asked && asked();
  };
  work_->reader = std::make_unique<BlockReader>(std::move(files), std::move(schema), options);
  work_->make_ahead();
}

ReadAhead::~ReadAhead() {
  work_->reader->interrupt();
  std::unique_lock lock(work_->mutex);
  work_->changed.wait(lock, [this] { return work_->state != Work::State::kMaking; });
  // Now, and not when the job that may be in the pool lets go of it: so no file stays open.
  work_->reader.reset();
}

BlockReader::Outcome ReadAhead::next(std::chrono::milliseconds patience, DecodedBlock& out) {
  std::unique_lock lock(work_->mutex);
  work_->make(lock, /*caller=*/true);
  if (!work_->changed.wait_for(lock, patience, [this] { return work_->state == Work::State::kMade; }))
    return BlockReader::Outcome::kWaiting;
  if (work_->outcome != BlockReader::Outcome::kBlock) return work_->outcome;
  out = std::move(work_->block);
  work_->state = Work::State::kWanted;
  lock.unlock();
  work_->make_ahead();
  return BlockReader::Outcome::kBlock;
}

}  // namespace feedline
