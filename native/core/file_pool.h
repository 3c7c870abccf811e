// The data files that this process holds open.
//
// A reader keeps a DataFile, which is a path and an identity, and borrows a descriptor for each read. The
// descriptor stays open after the read, until its place is needed: then the least recently used one is
// closed, and the file is opened again when it is next read. A file that was replaced meanwhile is a fault.
//
// Pipes and devices cannot be opened again, so they stay open as long as they are read.
//
// Law: of the files that count against a FileBudget, no more than its limit are open at any moment. A thread
// waits for a place only while other threads are inside a read, so readers cannot block each other.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/fault.h"

namespace feedline {

// Asked ten times a second during a wait; true ends the wait with ECANCELED.
using Interrupted = std::function<bool()>;

// How many files may be open at a time. Every open file counts against the process's budget, and against
// those that its reader was given.
class FileBudget {
 public:
  explicit FileBudget(size_t limit);

  // That of the whole process: half of its soft limit on descriptors (ulimit -n), and at most 256.
  static FileBudget& process();

  // A lower limit closes files at once, those that are being read as soon as the read ends.
  void set_limit(size_t limit);
  size_t limit() const;
  size_t open() const;  // now
  size_t most() const;  // that were open at the same time

 private:
  friend class DataFile;

  size_t limit_;
  size_t open_ = 0;
  size_t most_ = 0;
};

using FileBudgets = std::vector<std::shared_ptr<FileBudget>>;

class DataFile {
 public:
  // A descriptor that stays open while the Loan lives.
  class Loan {
   public:
    Loan() = default;
    Loan(Loan&& other) noexcept
        : file_(std::exchange(other.file_, nullptr)), is_fresh_(std::exchange(other.is_fresh_, false)) {}
    Loan& operator=(Loan&& other) noexcept {
      std::swap(file_, other.file_);
      std::swap(is_fresh_, other.is_fresh_);
      return *this;
    }
    ~Loan() { end(/*close=*/false); }

    int descriptor() const noexcept { return file_->descriptor_; }
    // Was the file opened for this loan?
    bool is_fresh() const noexcept { return is_fresh_; }
    // Fills `into` from a regular file; `got` is less than its size only at the end of the file or at a
    // fault.
    Fault read_at(uint64_t offset, std::span<uint8_t> into, size_t& got) const;
    // Ends the loan and closes the file.
    void close() noexcept { end(/*close=*/true); }

   private:
    friend class DataFile;
    Loan(DataFile* file, bool is_fresh) : file_(file), is_fresh_(is_fresh) {}
    void end(bool close) noexcept;

    DataFile* file_ = nullptr;
    bool is_fresh_ = false;
  };

  // Opens nothing yet.
  explicit DataFile(std::string path) : path_(std::move(path)) {}
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile();

  // Opens the file if it is not open; what this opens counts against `budgets`. The first call notes what the
  // file is. From any thread.
  Fault borrow(const FileBudgets& budgets, const Interrupted& interrupted, Loan& out);

  const std::string& path() const noexcept { return path_; }
  // Since the first loan: is it a regular file, and its size then, 0 if it is none.
  bool is_regular() const noexcept { return identity_ && identity_->regular; }
  uint64_t size() const noexcept { return identity_ ? identity_->size : 0; }

  // The fault for an errno, with the path.
  Fault os_fault(const std::string& doing, int error) const;
  // The fault for a file with fewer bytes than it had at first.
  Fault shrunk(uint64_t size_now) const;

 private:
  friend class FileBudget;
  struct Pool;
  struct Identity {
    bool regular = false;
    uint64_t size = 0;
    uint64_t device = 0, inode = 0;
    int64_t born = 0;      // nanoseconds, where the file system tells: a new file may get an old inode
    int64_t modified = 0;  // nanoseconds

    // Some network file systems give a file another inode each time it is opened; its time stays.
    bool is_that_of(const Identity& other) const noexcept {
      return regular == other.regular && device == other.device &&
             ((inode == other.inode && born == other.born) ||
              (size == other.size && modified == other.modified));
    }
  };

  // Until there is a place for one more.
  Fault enter(const FileBudgets& budgets, const Interrupted& interrupted);
  Fault open_now(const Interrupted& interrupted);
  Fault open_descriptor(int& descriptor);
  Fault identify(int descriptor, Identity& found) const;
  Fault io_fault(std::string what, int error) const;
  void leave() noexcept;
  bool counts_against(const FileBudget& budget) const noexcept;
  bool is_over_a_limit() const noexcept;

  const std::string path_;
  std::string absolute_;  // of a relative path that may be opened again: the program may change its directory

  // Changed under the pool's lock.
  std::optional<Identity> identity_;  // as it was when it was first opened
  int descriptor_ = -1;
  size_t loans_ = 0;
  bool opening_ = false;               // by one of the borrowers
  FileBudgets budgets_;                // that it counts against while it is open, beside the process's
  std::list<DataFile*>::iterator at_;  // in the pool, while it is open or being opened
  bool entered_ = false;
};

}  // namespace feedline
