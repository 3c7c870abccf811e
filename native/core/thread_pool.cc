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
    for (const size_t wanted = cores(); threads_ < wanted; ++threads_) {
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

// Work that is handed out piece by piece. A thread that comes when all is handed out touches nothing of the
// caller's, who may be gone by then.
struct Shared {
  void take_part() {
    size_t done_here = 0;
    for (size_t i = next++; i < count; i = next++) {
      (*work)(i);
      ++done_here;
    }
    if (done_here == 0) return;
    std::lock_guard lock(mutex);
    done += done_here;
    changed.notify_all();
  }

  size_t count = 0;
  const std::function<void(size_t)>* work = nullptr;
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::condition_variable changed;
  size_t done = 0;
};

}  // namespace

void run_soon(std::function<void()> job) { pool().put(std::move(job)); }

void share_work(size_t count, const std::function<void(size_t)>& work) {
  auto shared = std::make_shared<Shared>();
  shared->count = count;
  shared->work = &work;
  try {
    if (count > 1) pool().put_first(std::min(count, cores()) - 1, [shared] { shared->take_part(); });
  } catch (const std::bad_alloc&) {
    // Then fewer help. It must not end here: some may have begun.
  }
  shared->take_part();
  std::unique_lock lock(shared->mutex);
  shared->changed.wait(lock, [&] { return shared->done == count; });
}

}  // namespace feedline
