// A file of records that one process appends to, until another takes the file away from it.
//
// What append() returned from is in the kernel: the process may be killed after it. Every append holds the
// file's lock (flock) and looks whether the file is still where it was made. So who wants the file for good
// renames the directory that it lies in, and then waits once for its lock: from then on it does not change.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/buffer.h"
#include "core/fault.h"

namespace feedline {

class PartFile {
 public:
  // Asked when a signal comes while the file's lock is waited for; true ends the wait with ECANCELED.
  using Interrupted = std::function<bool()>;

  // An empty file, opened for writing. The descriptor stays the caller's, and open as long as this is used.
  PartFile(int descriptor, std::string path);

  // Appends record i, which lies between offsets i and i + 1 of the payloads, for all but the last offset:
  // all records or, with a fault, none. The fault is ESTALE when the file was taken away. One thread at a
  // time.
  Fault append(std::span<const uint8_t> payloads, std::span<const uint64_t> offsets,
               const Interrupted& interrupted);

  uint64_t size() const noexcept { return size_; }
  uint64_t records() const noexcept { return records_; }

 private:
  Fault check_place() const;
  Fault write_frames(std::span<const uint8_t> payloads, std::span<const uint64_t> offsets, uint64_t& end);
  Fault write_all(std::span<const uint8_t> bytes, uint64_t at);

  const int descriptor_;
  const std::string path_;
  dev_t device_ = 0;
  ino_t number_ = 0;
  uint64_t size_ = 0;
  uint64_t records_ = 0;
  Buffer frames_;
};

}  // namespace feedline
