#include "core/thread_set.h"

#include <atomic>

namespace feedline {

uint64_t ThreadSet::this_thread() noexcept {
  static std::atomic<uint64_t> last{0};
  thread_local uint64_t number = 0;  // a constant, so that no access has to ask whether it is initialised
  if (number == 0) number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace feedline
