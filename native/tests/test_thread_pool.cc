#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/thread_pool.h"
#include "tests/check.h"

namespace feedline {

TEST(shared_work_is_done_once_each_and_before_finish_returns) {
  for (const size_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> done(count);
    SharedWork(count, [&](size_t i) { ++done[i]; }).finish();
    for (const auto& times : done) CHECK_EQ(times.load(), 1);
  }
}

TEST(work_is_shared_by_many_callers_at_once) {
  std::atomic<size_t> sum = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        size_t own[16] = {};  // gone as soon as the call has returned
        SharedWork(16, [&](size_t i) { own[i] = i + 1; }).finish();
        for (const size_t one : own) sum += one;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(sum.load(), 8 * 200 * 136);
}

TEST(work_that_is_not_finished_is_left_out_and_never_touched_again) {
  for (int round = 0; round < 200; ++round) {
    std::vector<int> done(16);  // gone when this round is, as AddressSanitizer would see
    SharedWork work(16, [&](size_t i) { ++done[i]; });
    if (round % 2 != 0) std::this_thread::yield();
  }
}

TEST(a_forked_child_does_all_the_work_itself) {
  std::vector<std::atomic<int>> done(64);
  std::atomic<bool> go_on = false;
  {
    SharedWork work(64, [&](size_t i) {
      while (i == 0 && !go_on) std::this_thread::yield();
      ++done[i];
    });
    const pid_t child = fork();
    if (child == 0) {
      go_on = true;
      work.finish();
      for (const auto& times : done) {
        if (times == 0) _exit(1);
      }
      _exit(0);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    go_on = true;
    work.finish();
  }
  for (const auto& times : done) CHECK_EQ(times.load(), 1);
}

TEST(work_goes_on_though_all_threads_are_busy) {
  std::mutex mutex;
  std::condition_variable changed;
  bool released = false;
  std::atomic<size_t> ended = 0;
  for (int i = 0; i < 64; ++i) {
    run_soon([&] {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return released; });
      }
      ++ended;
    });
  }
  std::atomic<size_t> done = 0;
  SharedWork(100, [&](size_t) { ++done; }).finish();
  CHECK_EQ(done.load(), 100);

  // The jobs use this function's variables, so it must not end before them.
  {
    std::lock_guard lock(mutex);
    released = true;
    changed.notify_all();
  }
  while (ended != 64) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace feedline
