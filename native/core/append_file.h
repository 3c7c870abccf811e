// One growing TFRecord file to which any number of processes append, each write under a lock on the file.
//
// The file is whole records, and perhaps a torn tail: what a writer left that died while it wrote. Nobody
// else writes while the lock is held, so whoever has it may cut a tail off: each write begins with that. What
// is known of the file is the end of the last whole record; a write goes over the records that others have
// added since, and writes at the end of them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/buffer.h"
#include "core/fault.h"

namespace feedline {

// One thread at a time.
class AppendFile {
 public:
  // Asked now and then during a wait for the lock or a long walk; true ends it with ECANCELED.
  using Interrupted = std::function<bool()>;

  // Opens the file, or makes it, and cuts a torn tail off. `known` is where a record of the file is known to
  // end, as from an index; 0 walks all of it.
  static Fault open(const std::string& path, uint64_t known, int64_t known_records,
                    const Interrupted& interrupted, std::unique_ptr<AppendFile>& out);

  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile() { close(); }

  // Appends framed records: all of them, or none and a fault. They are in the kernel's hands then, and
  // outlive this process; sync() makes them outlive the machine. When the file's name has come to mean
  // another file, or none, they go to that, or to a new one.
  Fault append(std::span<const uint8_t> frames, int64_t records, const Interrupted& interrupted);

  Fault sync();

  // Closes the descriptor; the next append opens the file again. A lock that another process holds through
  // the same descriptor, the parent of a fork, stays.
  void close() noexcept;

 private:
  explicit AppendFile(std::string path) : path_(std::move(path)) {}

  Fault open_file(const Interrupted& interrupted);
  // The lock on the file that the name means now, with nothing after its last whole record.
  Fault begin(const Interrupted& interrupted);
  Fault lock(const Interrupted& interrupted);
  void unlock() noexcept;
  bool is_still_the_file() const noexcept;
  Fault cut_tail(const Interrupted& interrupted);
  // From end_ over every whole record in the first `size` bytes. Payloads are believed, but for the last one,
  // which a crash of the machine may have left without its bytes.
  Fault walk(uint64_t size, const Interrupted& interrupted);
  Fault last_payload_holds(uint64_t offset, uint64_t length, Buffer& chunk, bool& holds) const;
  // Is what lies behind end_ all that a cut-off write left? A fault if it is not, or may not be.
  Fault judge_tail(const Interrupted& interrupted) const;
  Fault read_at(uint64_t offset, std::span<uint8_t> into, size_t& got) const;
  // The four bytes in front of end_: kept, and compared with what is there now.
  Fault remember_end();
  bool end_holds() const;
  void set_end(uint64_t end, int64_t records) noexcept;
  Fault os_fault(const char* doing, int error) const;
  Fault corrupt(std::string what) const;

  const std::string path_;
  int descriptor_ = -1;
  uint64_t end_ = 0;     // of the last record that is known to be whole
  int64_t records_ = 0;  // up to there
  std::array<uint8_t, 4> footer_{};
  bool dir_synced_ = false;  // since the file was opened
};

// The payloads, which lie in `bytes` between each offset and the next, framed and back to back.
Buffer framed(std::span<const uint8_t> bytes, std::span<const uint64_t> offsets);

}  // namespace feedline
