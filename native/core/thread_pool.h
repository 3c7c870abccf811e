// Threads that all parts of the core share: one for each core, whatever the number of files and pipelines.
#pragma once

#include <cstddef>
#include <functional>

namespace feedline {

// Does the job soon, after those that came before.
void run_soon(std::function<void()> job);

// Calls work(0) to work(count - 1), each once, in any order: by the caller, and by threads of the pool that
// have nothing else to do or are done with it meanwhile. Returns when all are done. `work` must not throw.
void share_work(size_t count, const std::function<void(size_t)>& work);

}  // namespace feedline
