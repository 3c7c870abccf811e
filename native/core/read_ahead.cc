#include "core/read_ahead.h"

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>

#include "core/thread_pool.h"

namespace feedline {

namespace {

// One may be taken while the next is made, so that the threads seldom wait.
constexpr size_t kBlocksAhead = 2;

}  // namespace

struct ReadAhead::Work : std::enable_shared_from_this<Work> {
  struct Made {
    BlockReader::Outcome outcome = BlockReader::Outcome::kEnd;
    DecodedBlock block;
  };

  bool is_wanted() const {
    const bool ended = !made.empty() && made.back().outcome != BlockReader::Outcome::kBlock;
    return reader && !making && !ended && made.size() < kBlocksAhead;
  }

  // Makes the next block, if it is wanted. Gives up the lock meanwhile.
  void make(std::unique_lock<std::mutex>& lock, bool caller) {
    making = true;
    caller_makes = caller;
    lock.unlock();
    Made next;
    try {
      next.outcome = reader->next(std::chrono::milliseconds(0), next.block);
    } catch (const std::bad_alloc&) {
      next.outcome = BlockReader::Outcome::kBlock;
      next.block.fault = Fault::io("there is no memory left for the next block", ENOMEM);
    }
    lock.lock();
    made.push_back(std::move(next));
    making = false;
    changed.notify_all();
  }

  // One block, and later the next: the other readers have their turns in between.
  void make_ahead() {
    run_soon([self = shared_from_this()] {
      std::unique_lock lock(self->mutex);
      if (!self->is_wanted()) return;
      self->make(lock, /*caller=*/false);
      if (self->is_wanted()) self->make_ahead();
    });
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool making = false;
  std::unique_ptr<BlockReader> reader;  // used by who is making, without the mutex; none when closed
  std::deque<Made> made;
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
  work_->changed.wait(lock, [this] { return !work_->making; });
  // Now, and not when the job that may be in the pool lets go of it: so no file stays open.
  work_->reader.reset();
}

BlockReader::Outcome ReadAhead::next(std::chrono::milliseconds patience, DecodedBlock& out) {
  std::unique_lock lock(work_->mutex);
  if (work_->made.empty() && work_->is_wanted()) work_->make(lock, /*caller=*/true);
  if (!work_->changed.wait_for(lock, patience, [this] { return !work_->made.empty(); }))
    return BlockReader::Outcome::kWaiting;
  Work::Made& first = work_->made.front();
  if (first.outcome != BlockReader::Outcome::kBlock) return first.outcome;
  out = std::move(first.block);
  work_->made.pop_front();
  const bool goes_on = work_->is_wanted();
  lock.unlock();
  if (goes_on) work_->make_ahead();
  return BlockReader::Outcome::kBlock;
}

}  // namespace feedline
