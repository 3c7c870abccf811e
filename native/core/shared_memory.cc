#include "core/shared_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace feedline {

SharedMemory::SharedMemory(int fd, size_t size, bool writable) : size_(size) {
  const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int flags = writable ? MAP_SHARED | MAP_POPULATE : MAP_SHARED;
  void* const memory = mmap(nullptr, size, access, flags, fd, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  data_ = static_cast<uint8_t*>(memory);
}

SharedMemory::~SharedMemory() { munmap(data_, size_); }

}  // namespace feedline
