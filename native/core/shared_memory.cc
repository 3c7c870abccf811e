#include "core/shared_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace feedline {

SharedMemory::SharedMemory(int fd, size_t size) : size_(size) {
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  data_ = static_cast<uint8_t*>(memory);
}

SharedMemory::~SharedMemory() { munmap(data_, size_); }

}  // namespace feedline
