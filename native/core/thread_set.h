// Threads that have been here. Unlike pthread_self(), the number of a thread is never given to a later one.
#pragma once

#include <cstdint>
#include <unordered_set>

namespace feedline {

class ThreadSet {
 public:
  // Cheap enough to be called for every record: mostly it is the thread that called it last.
  void add_this() {
    const uint64_t number = this_thread();
    if (number == last_) return;
    last_ = number;
    numbers_.insert(number);
  }

  bool has_this() const { return numbers_.contains(this_thread()); }

 private:
  static uint64_t this_thread() noexcept;

  uint64_t last_ = 0;  // no thread has this number
  std::unordered_set<uint64_t> numbers_;
};

}  // namespace feedline
