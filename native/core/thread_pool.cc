#include "core/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace feedline {

namespace {

size_t cores() noexcept {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<size_t>(CPU_COUNT(&set)) : 1;
}

// They live as long as the process.
class Pool {
 public:
  void put(std::function<void()> job) {
    std::lock_guard lock(mutex_);
    start();
    jobs_.push_back(std::move(job));
    waiting_.notify_one();
  }

  // In front of the other jobs, for as many threads as there are.
  void put_first(size_t times, const std::function<void()>& job) {
    std::lock_guard lock(mutex_);
    start();
    for (size_t i = 0; i < std::min(times, threads_); ++i) {
      jobs_.push_front(job);
      waiting_.notify_one();
    }
  }

 private:
  void start() {
    if (threads_ != 0) return;
    // One core is left to those who call: a pipeline waits for its caller more than for anything else.
    for (const size_t wanted = std::max<size_t>(cores(), 2) - 1; threads_ < wanted; ++threads_) {
      try {
        std::thread([this] { work(); }).detach();
      } catch (const std::system_error&) {
        // Without a thread, callers do their work themselves.
        break;
      }
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      waiting_.wait(lock, [this] { return !jobs_.empty(); });
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable waiting_;
  std::deque<std::function<void()>> jobs_;
  size_t threads_ = 0;
};

// Never destroyed: its threads may be at work when the static destructors run. A forked child, which has none
// of them, gets a pool of its own.
Pool& pool() {
  static std::mutex mutex;
  static Pool* shared = nullptr;
  static pid_t owner = 0;
  std::lock_guard lock(mutex);
  if (owner != getpid()) {
    shared = new Pool;
    owner = getpid();
  }
  return *shared;
}

}  // namespace

void run_soon(std::function<void()> job) { pool().put(std::move(job)); }

struct SharedWork::State {
  void take_part() {
    size_t done_here = 0;
    for (size_t i = next++; i < count; i = next++) {
      work(i);
      ++done_here;
    }
    end(done_here);
  }

  // The threads that had begun something are not there in a forked child.
  bool is_forked() const noexcept { return getpid() != owner; }

  void leave_out_the_rest() {
    const size_t begun = next.exchange(count);
    end(begun < count ? count - begun : 0);
  }

  void end(size_t parts) {
    if (parts == 0) return;
    std::lock_guard lock(mutex);
    done += parts;
    changed.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done == count; });
  }

  const pid_t owner = getpid();
  size_t count = 0;
  std::function<void(size_t)> work;
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::condition_variable changed;
  size_t done = 0;
};

SharedWork::SharedWork(size_t count, std::function<void(size_t)> work) : state_(std::make_shared<State>()) {
  state_->count = count;
  state_->work = std::move(work);
  try {
    // A thread that comes when all is handed out touches nothing of the caller's, who may be gone by then.
    if (count > 1) pool().put_first(std::min(count, cores()) - 1, [state = state_] { state->take_part(); });
  } catch (const std::bad_alloc&) {
    // Then fewer help. It must not end here: some may have begun.
  }
}

SharedWork::~SharedWork() {
  if (state_->is_forked()) return;
  state_->leave_out_the_rest();
  state_->wait();
}

void SharedWork::finish() noexcept {
  if (state_->is_forked()) {
    for (size_t i = 0; i < state_->count; ++i) state_->work(i);
    return;
  }
  state_->take_part();
  state_->wait();
}

}  // namespace feedline
