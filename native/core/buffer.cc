#include "core/buffer.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#ifdef FEEDLINE_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace feedline {

namespace {

constexpr size_t kSmallest = 4096;                // below a page, malloc recycles well enough
constexpr size_t kMaxPooled = size_t{256} << 20;  // idle bytes kept; beyond, memory goes back to the system

// Four classes an octave: at most a quarter is wasted, and batches of nearly equal size share a class.
size_t class_of(size_t size) {
  const size_t step = std::bit_floor(size) / 4;
  return (size + step - 1) / step * step;
}

uint8_t* allocate(size_t capacity) {
  void* memory = std::aligned_alloc(kAlignment, capacity);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<uint8_t*>(memory);
}

class Pool {
 public:
  uint8_t* take(size_t capacity) {
    {
      std::lock_guard lock(mutex_);
      auto idle = idle_.find(capacity);
      if (idle != idle_.end() && !idle->second.empty()) {
        uint8_t* memory = idle->second.back();
        idle->second.pop_back();
        bytes_ -= capacity;
        return memory;
      }
    }
    return allocate(capacity);
  }

  void give(uint8_t* memory, size_t capacity) noexcept {
    try {
      std::lock_guard lock(mutex_);
      if (bytes_ + capacity <= kMaxPooled) {
        idle_[capacity].push_back(memory);
        bytes_ += capacity;
        return;
      }
    } catch (const std::bad_alloc&) {
      // No memory to remember it by: the system gets it back.
    }
    std::free(memory);
  }

  size_t bytes() noexcept {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

  // Around a fork: a child has none of the threads that might have the lock.
  void hold() { mutex_.lock(); }
  void let_go() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<uint8_t*>> idle_;
  size_t bytes_ = 0;
};

// Never destroyed: arrays may die after the static destructors have run.
Pool& pool() {
  static Pool* const shared = [] {
    pthread_atfork([] { pool().hold(); }, [] { pool().let_go(); }, [] { pool().let_go(); });
    return new Pool;
  }();
  return *shared;
}

}  // namespace

Buffer::Buffer(size_t size) : size_(size) {
  if (size == 0) return;
  if (size > SIZE_MAX / 2) throw std::bad_alloc();
  if (size < kSmallest) {
    capacity_ = (size + kAlignment - 1) / kAlignment * kAlignment;
    data_ = allocate(capacity_);
  } else {
    capacity_ = class_of(size);
    data_ = pool().take(capacity_);
  }
  fence();
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  size_ = capacity_;
  fence();
  if (capacity_ < kSmallest) {
    std::free(data_);
  } else {
    pool().give(data_, capacity_);
  }
}

void Buffer::grow(size_t size) {
  Buffer larger(std::max(size, capacity_ + capacity_ / 2));
  if (size_ != 0) std::memcpy(larger.data_, data_, size_);
  *this = std::move(larger);
}

#ifdef FEEDLINE_ASAN
void Buffer::fence() noexcept {
  if (data_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(data_, size_);
  ASAN_POISON_MEMORY_REGION(data_ + size_, capacity_ - size_);
}
#endif

size_t pooled_bytes() noexcept { return pool().bytes(); }

}  // namespace feedline
