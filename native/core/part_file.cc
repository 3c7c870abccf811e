#include "core/part_file.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "core/framing.h"

namespace feedline {

namespace {

// Frames are made and handed over while they are in the second-level cache.
constexpr size_t kChunk = 1 << 19;

Fault refused(int error) { return Fault::io(std::strerror(error), error); }

class Locked {
 public:
  Locked(int descriptor, const PartFile::Interrupted& interrupted) : descriptor_(descriptor) {
    while (flock(descriptor, LOCK_EX) != 0) {
      error = errno;
      if (error != EINTR) return;
      error = ECANCELED;
      if (interrupted()) return;
    }
    error = 0;
  }
  ~Locked() {
    if (error == 0) flock(descriptor_, LOCK_UN);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  int error = 0;

 private:
  const int descriptor_;
};

bool rise(std::span<const uint64_t> offsets, size_t size) {
  return !offsets.empty() && std::is_sorted(offsets.begin(), offsets.end()) && offsets.back() <= size;
}

}  // namespace

PartFile::PartFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return;  // then no file at the path is the same
  device_ = status.st_dev;
  number_ = status.st_ino;
}

Fault PartFile::append(std::span<const uint8_t> payloads, std::span<const uint64_t> offsets,
                       const Interrupted& interrupted) {
  if (!rise(offsets, payloads.size())) {
    return Fault::schema("the offsets fall, or go beyond the end of the payloads", "");
  }
  const Locked locked(descriptor_, interrupted);
  if (locked.error != 0) return refused(locked.error);
  if (Fault fault = check_place()) return fault;
  uint64_t end = size_;
  Fault fault;
  try {
    fault = write_frames(payloads, offsets, end);
  } catch (const std::bad_alloc&) {
    fault = refused(ENOMEM);
  }
  if (fault) {
    // If not even this can be done, the next append and who takes the file over find that it is torn.
    static_cast<void>(ftruncate(descriptor_, static_cast<off_t>(size_)) == 0);
    return fault;
  }
  size_ = end;
  records_ += offsets.size() - 1;
  return {};
}

Fault PartFile::check_place() const {
  struct stat status;
  if (stat(path_.c_str(), &status) != 0) {
    const int error = errno;
    return error == ENOENT || error == ENOTDIR ? refused(ESTALE) : refused(error);
  }
  if (status.st_dev != device_ || status.st_ino != number_) return refused(ESTALE);
  if (static_cast<uint64_t>(status.st_size) != size_) {
    return Fault::io("it holds " + std::to_string(status.st_size) + " bytes, and " + std::to_string(size_) +
                         " were written",
                     EIO);
  }
  return {};
}

Fault PartFile::write_frames(std::span<const uint8_t> payloads, std::span<const uint64_t> offsets,
                             uint64_t& end) {
  for (size_t i = 0; i + 1 < offsets.size();) {
    size_t bytes = 0;
    size_t next = i;
    do {
      bytes += kFraming + static_cast<size_t>(offsets[next + 1] - offsets[next]);
      ++next;
    } while (next + 1 < offsets.size() &&
             bytes + kFraming + static_cast<size_t>(offsets[next + 1] - offsets[next]) <= kChunk);
    frames_.resize(bytes);
    uint8_t* out = frames_.data();
    for (; i < next; ++i) out = write_frame(payloads.subspan(offsets[i], offsets[i + 1] - offsets[i]), out);
    if (Fault fault = write_all(frames_.bytes(), end)) return fault;
    end += bytes;
  }
  if (frames_.capacity() > 2 * kChunk) frames_ = Buffer();  // a huge record need not stay in memory
  return {};
}

Fault PartFile::write_all(std::span<const uint8_t> bytes, uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0) {
      if (errno == EINTR) continue;
      return refused(errno);
    }
    if (written == 0) return refused(ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(written));
    at += static_cast<uint64_t>(written);
  }
  return {};
}

}  // namespace feedline
