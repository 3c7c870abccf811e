// Threads that all parts of the core share: one for each core but the caller's, whatever the number of files
// and pipelines.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace feedline {

// Does the job soon, after those that came before.
void run_soon(std::function<void()> job);

// Calls work(0) to work(count - 1), each once, in any order: by threads of the pool, from now on, and by
// those that call finish(). `work` must not throw.
class SharedWork {
 public:
  // Throws std::bad_alloc.
  SharedWork(size_t count, std::function<void(size_t)> work);
  SharedWork(const SharedWork&) = delete;
  SharedWork& operator=(const SharedWork&) = delete;
  // What nobody has begun is left out.
  ~SharedWork();

  // Returns when all is done.
  void finish() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace feedline
