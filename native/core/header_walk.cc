#include "core/header_walk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <span>
#include <thread>

#include "core/framing.h"

namespace feedline {

namespace {

constexpr size_t kRead = 256 << 10;
constexpr size_t kShortRead = 4 << 10;  // between records that are larger than a read

struct Progress {
  std::atomic<uint64_t> bytes{0};
  std::atomic<bool> stopped{false};
};

class OpenFile {
 public:
  // Not a pipe that nobody writes to: opening it would wait.
  explicit OpenFile(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  bool stat(struct stat& facts) const noexcept {
    return descriptor_ >= 0 && ::fstat(descriptor_, &facts) == 0 && S_ISREG(facts.st_mode);
  }

  // Fills `into`, or less at the end of the file; false on an error.
  bool read(uint64_t offset, std::span<uint8_t> into, size_t& got) const noexcept {
    got = 0;
    while (got < into.size()) {
      const ssize_t more =
          ::pread(descriptor_, into.data() + got, into.size() - got, static_cast<off_t>(offset + got));
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) return false;
      if (more == 0) return true;
      got += static_cast<size_t>(more);
    }
    return true;
  }

 private:
  const int descriptor_;
};

uint64_t nanoseconds(const struct timespec& time) noexcept {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

FileIdentity identity_of(const struct stat& facts) noexcept {
  return {static_cast<uint64_t>(facts.st_size), nanoseconds(facts.st_mtim), nanoseconds(facts.st_ctim),
          static_cast<uint64_t>(facts.st_ino), 0};
}

bool probe_ends(const OpenFile& file, FileIdentity& identity) noexcept {
  uint8_t bytes[kIdentityProbe];
  uint32_t checksum = 0;
  const uint64_t probe = std::min<uint64_t>(kIdentityProbe, identity.size);
  for (const uint64_t at : {uint64_t{0}, identity.size - probe}) {
    size_t got = 0;
    if (!file.read(at, {bytes, probe}, got) || got < probe) return false;
    checksum = crc32c({bytes, got}, checksum);
  }
  identity.ends = checksum;
  return true;
}

// The offsets of all records up to exactly `size`; false where a header does not hold or leads elsewhere.
bool walk(const OpenFile& file, uint64_t size, std::vector<uint8_t>& chunk, std::vector<uint64_t>& offsets,
          Progress& progress) {
  uint64_t chunk_at = 0;  // where in the file `chunk` begins
  size_t held = 0;
  size_t next_read = kRead;
  uint64_t at = 0;
  while (at < size) {
    if (size - at < kFraming) return false;
    if (at + kHeaderSize > chunk_at + held) {
      if (progress.stopped.load(std::memory_order_relaxed)) return false;
      progress.bytes.fetch_add(at - chunk_at, std::memory_order_relaxed);
      chunk_at = at;
      if (!file.read(at, {chunk.data(), next_read}, held) || held < kHeaderSize) return false;
    }
    const uint8_t* const header = chunk.data() + (at - chunk_at);
    if (!header_holds(header)) return false;
    // The length is the file's word: subtract from what there is, because adding to it could wrap.
    const uint64_t length = header_length(header);
    if (length > size - at - kFraming) return false;
    offsets.push_back(at);
    at += kFraming + length;
    next_read = length > kRead ? kShortRead : kRead;
  }
  progress.bytes.fetch_add(at - chunk_at, std::memory_order_relaxed);
  offsets.push_back(at);
  return true;
}

void walk_file(const std::string& path, std::vector<uint8_t>& chunk, WalkedFile& out, Progress& progress) {
  const OpenFile file(path);
  struct stat before, after;
  if (!file.stat(before)) return;
  out.identity = identity_of(before);
  if (!probe_ends(file, out.identity)) return;
  if (!walk(file, out.identity.size, chunk, out.offsets, progress)) return;
  if (!file.stat(after)) return;
  const FileIdentity now = identity_of(after);
  out.offsets.shrink_to_fit();
  out.sound = now.size == out.identity.size && now.modified == out.identity.modified &&
              now.changed == out.identity.changed;
}

// A file on a network is mostly a wait, so there are more threads than cores; few, because each holds a file.
size_t thread_count(size_t files) {
  return std::min<size_t>(files, std::clamp<size_t>(std::thread::hardware_concurrency(), 8, 16));
}

}  // namespace

std::vector<WalkedFile> walk_headers(const std::vector<std::string>& paths,
                                     const std::function<bool(uint64_t)>& tick) {
  std::vector<WalkedFile> walked(paths.size());
  Progress progress;
  std::atomic<size_t> next{0};
  std::atomic<bool> out_of_memory{false};
  std::mutex mutex;
  std::condition_variable ended;
  size_t running = 0;

  const auto work = [&] {
    try {
      std::vector<uint8_t> chunk(kRead);
      for (size_t i; !progress.stopped && (i = next.fetch_add(1)) < paths.size();)
        walk_file(paths[i], chunk, walked[i], progress);
    } catch (const std::bad_alloc&) {
      out_of_memory = progress.stopped = true;
    }
    const std::lock_guard lock(mutex);
    --running;
    ended.notify_one();
  };

  std::vector<std::jthread> threads;
  std::unique_lock lock(mutex);
  for (size_t i = 0; i < thread_count(paths.size()); ++i) {
    ++running;
    try {
      threads.emplace_back(work);
    } catch (...) {  // a limit on threads: those that run will do
      --running;
      if (threads.empty()) throw;
      break;
    }
  }
  while (!ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return running == 0; })) {
    lock.unlock();
    if (!tick(progress.bytes)) progress.stopped = true;
    lock.lock();
  }
  lock.unlock();
  threads.clear();  // joins
  if (out_of_memory) throw std::bad_alloc();
  return walked;
}

}  // namespace feedline
