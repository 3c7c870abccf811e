// Memory for columns: 64-byte aligned, so that TensorFlow, torch and JAX take it without a copy, and
// recycled, because a fresh page costs more to fault in than to fill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define FEEDLINE_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FEEDLINE_ASAN
#endif
#endif

namespace feedline {

inline constexpr size_t kAlignment = 64;

// A stretch of pool memory; it goes back to the pool when its Buffer dies. Contents are undefined at first.
class Buffer {
 public:
  Buffer() = default;
  // Throws std::bad_alloc when there is no memory.
  explicit Buffer(size_t size);
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Buffer();

  uint8_t* data() noexcept { return data_; }
  const uint8_t* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  size_t capacity() const noexcept { return capacity_; }
  std::span<uint8_t> bytes() noexcept { return {data_, size_}; }
  std::span<const uint8_t> bytes() const noexcept { return {data_, size_}; }
  template <class T>
  T* as() noexcept {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const noexcept {
    return reinterpret_cast<const T*>(data_);
  }

  // Keeps the first `size()` bytes. Grows at least by half, so that appending is linear in all.
  void resize(size_t size) {
    if (size > capacity_) grow(size);
    size_ = size;
    fence();
  }

 private:
  void grow(size_t size);

  // Under AddressSanitizer, what is reserved beyond size() may not be touched. Elsewhere it does nothing.
#ifdef FEEDLINE_ASAN
  void fence() noexcept;
#else
  void fence() noexcept {}
#endif

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// Bytes that wait in the pool for their next use.
size_t pooled_bytes() noexcept;

}  // namespace feedline
