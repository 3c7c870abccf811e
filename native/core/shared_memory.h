// The file behind a descriptor as memory, seen by every process that has it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace feedline {

// Mapped as long as this lives. The descriptor need not stay open.
class SharedMemory {
 public:
  // What is to be written to gets all its pages at once: one by one they would cost more than what is copied
  // into them. Of what is only read, nobody knows whether all of it will be.
  // Throws std::system_error.
  SharedMemory(int fd, size_t size, bool writable);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  uint8_t* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }

 private:
  uint8_t* data_;
  size_t size_;
};

}  // namespace feedline
