// The bytes of a file from its beginning, inflated on the way when the file is compressed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/buffer.h"
#include "core/fault.h"
#include "core/file_pool.h"

namespace feedline {

// kAuto goes by the first bytes.
enum class Compression { kAuto, kNone, kGzip, kZlib };

// One reader at a time, but for read_at(), which any number of threads may call.
//
// A file of up to kWhole bytes is read and closed when it is opened. A larger one, compressed or not, has a
// descriptor only while it is read, and then as long as the pool has a place for it.
class ByteSource {
 public:
  static constexpr uint64_t kWhole = 256 << 10;

  // Pipes and devices may be opened too. An empty file is plain whatever was asked for, as in TensorFlow.
  // `interrupted` ends waits for a pipe, and for a place in the budgets.
  static Fault open(const std::string& path, Compression compression, std::unique_ptr<ByteSource>& out,
                    Interrupted interrupted = {}, FileBudgets budgets = {});

  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource();

  // Fills `into`; `got` is less than its size only at the end of the data or at a fault. The bytes in front
  // of a fault are good; a damaged stream gives the same fault to every later read. A regular file ends where
  // it did when it was opened, or before if it shrank: see shrunk().
  Fault read(std::span<uint8_t> into, size_t& got);

  // Goes `bytes` forward; a fault when the data ends before. Only in front of the first read().
  Fault skip(uint64_t bytes);

  // Reads a plain regular file from `offset`, without moving read(). Short only at the end of the file.
  Fault read_at(uint64_t offset, std::span<uint8_t> into, size_t& got) const;

  // All of a plain file, if it was read when it was opened.
  const std::shared_ptr<Buffer>& whole() const noexcept { return plain_whole_; }

  // The fault for a plain file that ended at `size`, before the end that it had when it was opened.
  Fault shrunk(uint64_t size) const { return file_.shrunk(size); }

  // The record at `offset`, which would end at `end`, was cut short by the end of the file as it was opened:
  // was it, or is it, just being appended? True when a writer holds the lock on the file (flock), has
  // finished the record since, or has taken it back. Always false for what is no plain regular file.
  bool is_being_appended(uint64_t offset, uint64_t end) const noexcept;

  const std::string& path() const noexcept { return file_.path(); }
  bool compressed() const noexcept { return inflater_ != nullptr; }
  // How the file is stored; never kAuto.
  Compression compression() const noexcept { return compression_; }

  // Bytes of the file, as stored, that were read so far; and all of them when it was opened, 0 for a pipe.
  uint64_t consumed() const noexcept { return consumed_; }
  uint64_t file_size() const noexcept { return file_.size(); }

  // Zeros that were found behind the last member of a gzip file.
  uint64_t padding() const noexcept;

  // Bytes that read() will give in all, where that is known beforehand: those of a plain regular file.
  std::optional<uint64_t> size() const noexcept;

 private:
  class Inflater;

  ByteSource(const std::string& path, Interrupted interrupted, FileBudgets budgets);

  Fault start(Compression compression);
  Fault read_whole(DataFile::Loan& loan);
  Fault borrow(DataFile::Loan& loan) const { return file_.borrow(budgets_, interrupted_, loan); }
  // The stored bytes after those that were read so far.
  Fault read_stored(std::span<uint8_t> into, size_t& got);
  Fault read_pipe(std::span<uint8_t> into, size_t& got);
  // Of a regular file.
  Fault read_stored_at(uint64_t offset, std::span<uint8_t> into, size_t& got) const;

  mutable DataFile file_;
  const Interrupted interrupted_;
  const FileBudgets budgets_;
  uint64_t consumed_ = 0;
  Compression compression_ = Compression::kNone;
  // What was read of a pipe to tell the compression, until it is given out.
  std::array<uint8_t, 12> head_{};
  size_t head_at_ = 0;
  size_t head_size_ = 0;
  std::shared_ptr<Buffer> whole_;        // the stored bytes of a small file
  std::shared_ptr<Buffer> plain_whole_;  // the same, if they are not compressed
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace feedline
