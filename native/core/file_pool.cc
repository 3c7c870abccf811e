#include "core/file_pool.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <new>
#include <system_error>

namespace feedline {

namespace {

constexpr size_t kMostByDefault = 256;
constexpr std::chrono::milliseconds kPatience{100};
constexpr size_t kMaxCall = size_t{1} << 30;  // Linux moves at most 2 GB per call

std::string counted(size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

int64_t nanoseconds(const statx_timestamp& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

// The rest of the descriptors is for the program.
size_t default_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMostByDefault;
  return std::clamp<size_t>(static_cast<size_t>(limit.rlim_cur) / 2, 1, kMostByDefault);
}

}  // namespace

using Lock = std::unique_lock<std::mutex>;

struct DataFile::Pool {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<DataFile*> files;  // that are open or being opened, the most recently used first
  FileBudget budget{default_limit()};

  // Never destroyed: threads and Python's last objects may use it until the process ends.
  static Pool& get() {
    static Pool& pool = *[] {
      static Pool* made = new Pool;
      // Under the lock, so that a forked child has the pool in order. The threads that were reading are not
      // in the child, so nothing is lent there.
      ::pthread_atfork([] { made->mutex.lock(); }, [] { made->mutex.unlock(); },
                       [] {
                         for (DataFile* file : made->files) file->loans_ = 0;
                         new (&made->changed) std::condition_variable;
                         made->mutex.unlock();
                       });
      return made;
    }();
    return pool;
  }

  enum class Room { kMade, kBusy, kNone };
  // Closes the least recently used file that counts against the budget and that nobody is reading. kBusy: one
  // will be idle soon.
  Room make_room(const FileBudget& full, const DataFile* except = nullptr) {
    Room room = Room::kNone;
    for (auto at = files.rbegin(); at != files.rend(); ++at) {
      DataFile& file = **at;
      if (&file == except || !file.counts_against(full)) continue;
      if (file.opening_ || (file.is_regular() && file.loans_ != 0)) {
        room = Room::kBusy;
      } else if (file.is_regular()) {
        file.leave();
        return Room::kMade;
      }
    }
    return room;
  }
};

FileBudget::FileBudget(size_t limit) : limit_(limit) {}

FileBudget& FileBudget::process() { return DataFile::Pool::get().budget; }

void FileBudget::set_limit(size_t limit) {
  DataFile::Pool& pool = DataFile::Pool::get();
  const Lock lock(pool.mutex);
  limit_ = limit;
  while (open_ > limit_ && pool.make_room(*this) == DataFile::Pool::Room::kMade) {
  }
  pool.changed.notify_all();
}

size_t FileBudget::limit() const {
  const Lock lock(DataFile::Pool::get().mutex);
  return limit_;
}

size_t FileBudget::open() const {
  const Lock lock(DataFile::Pool::get().mutex);
  return open_;
}

size_t FileBudget::most() const {
  const Lock lock(DataFile::Pool::get().mutex);
  return most_;
}

void DataFile::Loan::end(bool close) noexcept {
  if (file_ == nullptr) return;
  Pool& pool = Pool::get();
  const Lock lock(pool.mutex);
  DataFile& file = *std::exchange(file_, nullptr);
  if (--file.loans_ == 0 && (close || file.is_over_a_limit())) file.leave();
  pool.changed.notify_all();
}

Fault DataFile::Loan::read_at(uint64_t offset, std::span<uint8_t> into, size_t& got) const {
  got = 0;
  while (got < into.size()) {
    const size_t size = std::min(into.size() - got, kMaxCall);
    const ssize_t n = ::pread(descriptor(), into.data() + got, size, static_cast<off_t>(offset + got));
    if (n == 0) break;
    if (n > 0) {
      got += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      return file_->os_fault("cannot read at byte " + std::to_string(offset + got), errno);
    }
  }
  return {};
}

DataFile::~DataFile() {
  Pool& pool = Pool::get();
  const Lock lock(pool.mutex);
  if (!entered_) return;
  leave();
  pool.changed.notify_all();
}

Fault DataFile::borrow(const FileBudgets& budgets, const Interrupted& interrupted, Loan& out) {
  Pool& pool = Pool::get();
  Lock lock(pool.mutex);
  // Another borrower's open() ends by itself: there is no need to be interrupted.
  pool.changed.wait(lock, [this] { return !opening_; });
  if (entered_) {
    pool.files.splice(pool.files.begin(), pool.files, at_);
    ++loans_;
    lock.unlock();
    out = Loan(this, /*is_fresh=*/false);
    return {};
  }
  opening_ = true;
  lock.unlock();
  Fault fault = enter(budgets, interrupted);
  if (!fault) {
    fault = open_now(interrupted);
    lock.lock();
    if (fault) {
      loans_ = 0;
      leave();
    }
  } else {
    lock.lock();
  }
  opening_ = false;
  pool.changed.notify_all();
  lock.unlock();
  if (!fault) out = Loan(this, /*is_fresh=*/true);
  return fault;
}

Fault DataFile::enter(const FileBudgets& budgets, const Interrupted& interrupted) {
  Pool& pool = Pool::get();
  Lock lock(pool.mutex);
  while (true) {
    const FileBudget* full = pool.budget.open_ >= pool.budget.limit_ ? &pool.budget : nullptr;
    for (const auto& budget : budgets) {
      if (budget->open_ >= budget->limit_) full = budget.get();
    }
    if (full == nullptr) break;
    switch (pool.make_room(*full)) {
      case Pool::Room::kMade:
        break;
      case Pool::Room::kBusy:
        pool.changed.wait_for(lock, kPatience);
        lock.unlock();
        if (interrupted && interrupted()) return os_fault("cannot open", ECANCELED);
        lock.lock();
        break;
      case Pool::Room::kNone: {
        const char* const limit = full == &pool.budget ? "ulimit -n" : "max_open_files";
        return io_fault("the limit of " + counted(full->limit_, "open file") +
                            " is used up by pipes, which stay open while they are read. Raise " + limit +
                            ", or read fewer pipes at a time",
                        EMFILE);
      }
    }
  }
  budgets_ = budgets;
  for (const auto& budget : budgets_) budget->most_ = std::max(budget->most_, ++budget->open_);
  pool.budget.most_ = std::max(pool.budget.most_, ++pool.budget.open_);
  pool.files.push_front(this);
  at_ = pool.files.begin();
  entered_ = true;
  loans_ = 1;
  return {};
}

void DataFile::leave() noexcept {
  Pool& pool = Pool::get();
  // Under the lock, so that nobody opens a file in its place before it is closed. What is only read closes
  // at once.
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  pool.files.erase(at_);
  entered_ = false;
  --pool.budget.open_;
  for (const auto& budget : budgets_) --budget->open_;
  budgets_.clear();
}

bool DataFile::counts_against(const FileBudget& budget) const noexcept {
  return &budget == &Pool::get().budget ||
         std::any_of(budgets_.begin(), budgets_.end(), [&](const auto& own) { return own.get() == &budget; });
}

bool DataFile::is_over_a_limit() const noexcept {
  const auto is_over = [](const FileBudget& budget) { return budget.open_ > budget.limit_; };
  return is_regular() &&
         (is_over(Pool::get().budget) || std::any_of(budgets_.begin(), budgets_.end(),
                                                     [&](const auto& budget) { return is_over(*budget); }));
}

Fault DataFile::open_now(const Interrupted& interrupted) {
  int descriptor = -1;
  Fault fault = open_descriptor(descriptor);
  while (fault.os_error == EMFILE || fault.os_error == ENFILE) {
    // The program has used up the descriptors that were left to it. Give it ours that are idle.
    Pool& pool = Pool::get();
    Lock lock(pool.mutex);
    const Pool::Room room = pool.make_room(pool.budget, this);
    if (room == Pool::Room::kNone) return fault;
    if (room == Pool::Room::kBusy) pool.changed.wait_for(lock, kPatience);
    lock.unlock();
    if (interrupted && interrupted()) return os_fault("cannot open", ECANCELED);
    fault = open_descriptor(descriptor);
  }
  if (fault) return fault;
  Identity found{};
  fault = identify(descriptor, found);
  if (!fault && identity_ && !identity_->is_that_of(found)) {
    fault = io_fault(
        "the file was replaced by another one while it was being read, and had been closed to stay within "
        "the limit on open files. Begin again to read the new file; give new files new names to replace them "
        "at any time",
        ESTALE);
  }
  if (fault) {
    ::close(descriptor);
    return fault;
  }
  if (!identity_ && path_.front() != '/') {
    std::error_code error;
    absolute_ = (std::filesystem::current_path(error) / path_).string();
  }
  const Lock lock(Pool::get().mutex);
  descriptor_ = descriptor;
  if (!identity_) identity_ = found;
  return {};
}

Fault DataFile::open_descriptor(int& descriptor) {
  // A path with a zero byte would open the file that is named by what is in front of it.
  if (path_.find('\0') != std::string::npos) return os_fault("cannot open", EINVAL);
  const std::string& path = absolute_.empty() ? path_ : absolute_;
  do {
    // A pipe without a writer is waited for where the wait can be interrupted, and not here.
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor >= 0) return {};
  if (errno == ENOENT && identity_) {
    return io_fault(
        "the file was removed while it was being read, and had been closed to stay within the limit on open "
        "files. Put it back, or begin again without it",
        ENOENT);
  }
  return os_fault("cannot open", errno);
}

Fault DataFile::identify(int descriptor, Identity& found) const {
  struct statx status{};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &status) != 0)
    return os_fault("cannot open", errno);
  if (S_ISDIR(status.stx_mode)) return os_fault("cannot read", EISDIR);
  found.regular = S_ISREG(status.stx_mode);
  found.size = found.regular ? status.stx_size : 0;
  found.device = uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor;
  found.inode = status.stx_ino;
  if ((status.stx_mask & STATX_BTIME) != 0) found.born = nanoseconds(status.stx_btime);
  found.modified = nanoseconds(status.stx_mtime);
  return {};
}

Fault DataFile::os_fault(const std::string& doing, int error) const {
  return io_fault(doing + ": " + std::generic_category().message(error), error);
}

Fault DataFile::io_fault(std::string what, int error) const {
  Fault fault = Fault::io(std::move(what), error);
  fault.path = path_;
  return fault;
}

Fault DataFile::shrunk(uint64_t size_now) const {
  return io_fault("the file shrank from " + std::to_string(size()) + " to " + std::to_string(size_now) +
                      " bytes while it was being read. Begin again to read it as it is now",
                  ESTALE);
}

}  // namespace feedline
