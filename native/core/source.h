// The bytes of a file from its beginning, inflated on the way when the file is compressed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/fault.h"

namespace feedline {

// kAuto goes by the first bytes.
enum class Compression { kAuto, kNone, kGzip, kZlib };

// One reader at a time, but for read_at(), which any number of threads may call.
class ByteSource {
 public:
  // Asked ten times a second while a pipe has nothing to give; true ends the wait with ECANCELED.
  using Interrupted = std::function<bool()>;

  // Pipes and devices may be opened too. An empty file is plain whatever was asked for, as in TensorFlow.
  static Fault open(const std::string& path, Compression compression, std::unique_ptr<ByteSource>& out,
                    Interrupted interrupted = {});

  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource();

  // Fills `into`; `got` is less than its size only at the end of the data or at a fault. The bytes in front
  // of a fault are good; a damaged stream gives the same fault to every later read.
  Fault read(std::span<uint8_t> into, size_t& got);

  // Goes `bytes` forward; a fault when the data ends before. Only in front of the first read().
  Fault skip(uint64_t bytes);

  // Reads a plain regular file from `offset`, without moving read(). Short only at the end of the file.
  Fault read_at(uint64_t offset, std::span<uint8_t> into, size_t& got) const;

  // The record at `offset`, which would end at `end`, was cut short by the end of the file as it was opened:
  // was it, or is it, just being appended? True when a writer holds the lock on the file (flock), has
  // finished the record since, or has taken it back. Always false for what is no plain regular file.
  bool is_being_appended(uint64_t offset, uint64_t end) const noexcept;

  const std::string& path() const noexcept { return path_; }
  bool compressed() const noexcept { return inflater_ != nullptr; }
  // How the file is stored; never kAuto.
  Compression compression() const noexcept { return compression_; }

  // Bytes of the file, as stored, that were read so far; and all of them when it was opened, 0 for a pipe.
  uint64_t consumed() const noexcept { return consumed_; }
  uint64_t file_size() const noexcept { return file_size_; }

  // Zeros that were found behind the last member of a gzip file.
  uint64_t padding() const noexcept;

  // Bytes that read() will give in all, where that is known beforehand: those of a plain regular file.
  std::optional<uint64_t> size() const noexcept;

 private:
  class Inflater;

  ByteSource(std::string path, int descriptor);

  Fault start(Compression compression);
  Fault read_stored(std::span<uint8_t> into, size_t& got);
  // read(2), after waiting for a pipe to have something.
  int64_t read_some(uint8_t* into, size_t size);
  Fault os_fault(const char* doing, int error) const;

  std::string path_;
  int descriptor_;
  Interrupted interrupted_;
  bool regular_ = false;
  uint64_t file_size_ = 0;
  uint64_t consumed_ = 0;
  Compression compression_ = Compression::kNone;
  // What was read to tell the compression, until it is given out: a pipe cannot be rewound.
  std::array<uint8_t, 12> head_{};
  size_t head_at_ = 0;
  size_t head_size_ = 0;
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace feedline
