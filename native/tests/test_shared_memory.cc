#include <sys/mman.h>
#include <unistd.h>

#include <system_error>

#include "core/shared_memory.h"
#include "tests/check.h"

namespace feedline {

TEST(memory_is_shared_and_outlives_its_descriptor) {
  const int fd = memfd_create("test", MFD_CLOEXEC);
  CHECK_EQ(ftruncate(fd, 1 << 16), 0);
  const SharedMemory one(fd, 1 << 16, true), other(fd, 1 << 16, true);
  close(fd);
  CHECK(one.data() != other.data());
  one.data()[65535] = 7;
  CHECK_EQ(other.data()[65535], 7);
  CHECK_EQ(one.size(), 1 << 16);
}

TEST(what_is_only_read_shows_what_others_write) {
  const int fd = memfd_create("test", MFD_CLOEXEC);
  CHECK_EQ(ftruncate(fd, 4096), 0);
  const SharedMemory written(fd, 4096, true), read(fd, 4096, false);
  close(fd);
  written.data()[4095] = 7;
  CHECK_EQ(read.data()[4095], 7);
}

TEST(what_cannot_be_mapped_is_an_error) {
  bool thrown = false;
  try {
    const SharedMemory none(-1, 4096, true);
  } catch (const std::system_error&) {
    thrown = true;
  }
  CHECK(thrown);
}

}  // namespace feedline
