#include "core/record_sink.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <system_error>

#include "core/forks.h"
#include "core/framing.h"

namespace feedline {

namespace {

constexpr size_t kChunk = 1 << 20;
constexpr size_t kSmall = 1 << 16;  // what is smaller is added to a chunk that others add to, too
constexpr size_t kMostWaiting = 8 * kChunk;
constexpr size_t kPiece = 1 << 16;  // that the kernel is given at once: it may let nobody in between
constexpr std::chrono::milliseconds kPatience(100);

Fault canceled() { return Fault::io("interrupted", ECANCELED); }

Fault forked() {
  return Fault::io("it was opened in another process, which this one was forked from", EBADF);
}

// Goes to another core if this thread is on that one, and there is another for it. Where most cores are busy,
// the kernel wakes a thread on the core it slept on, though a producer runs there and another core is idle.
// The producer then stands still, and with it all who wait for what it holds, which may be Python's lock.
void leave(int core) noexcept {
  cpu_set_t all;
  if (sched_getcpu() != core || sched_getaffinity(0, sizeof all, &all) != 0) return;
  cpu_set_t others = all;
  CPU_CLR(static_cast<size_t>(core), &others);
  if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof all, &all);
}

// Lets a thread that wakes up on this one's core run after 0.1 ms instead of a few: it may be a producer that
// was just given Python's lock, and all others wait for it. This thread gets as much of the core as before.
// Kernels before 6.12 do not know of it, and change nothing.
void take_short_turns() noexcept {
  struct {  // sched_attr, which not every libc has
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } turns{};
  if (syscall(SYS_sched_getattr, 0, &turns, sizeof turns, 0) != 0 || turns.policy != SCHED_OTHER) return;
  turns.runtime = 100'000;  // ns, the shortest there is
  syscall(SYS_sched_setattr, 0, &turns, 0);
}

}  // namespace

class RecordSink::Deflater {
 public:
  explicit Deflater(bool gzip) : output_(kChunk) {
    // 15: the largest window; 16 more: gzip's wrapping instead of zlib's. 8: zlib's usual memory.
    const int window = gzip ? 15 + 16 : 15;
    if (deflateInit2(&zlib_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { deflateEnd(&zlib_); }

  // Gives what comes out to `write`, all of it when it is the `last`.
  template <class Write>
  Fault deflate_all(std::span<const uint8_t> bytes, bool last, Write&& write) {
    do {
      const size_t some = std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      zlib_.next_in = const_cast<uint8_t*>(bytes.data());
      zlib_.avail_in = static_cast<uInt>(some);
      bytes = bytes.subspan(some);
      do {
        zlib_.next_out = output_.data();
        zlib_.avail_out = static_cast<uInt>(output_.size());
        deflate(&zlib_, last && bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
        if (Fault fault = write(output_.bytes().first(output_.size() - zlib_.avail_out))) return fault;
      } while (zlib_.avail_out == 0);
    } while (!bytes.empty());
    return {};
  }

 private:
  z_stream zlib_{};
  Buffer output_;
};

RecordSink::RecordSink(int descriptor, Compression compression)
    : descriptor_(descriptor), forks_(forks()), threads_(std::make_unique<Threads>()) {
  if (compression == Compression::kGzip || compression == Compression::kZlib) {
    deflater_ = std::make_unique<Deflater>(compression == Compression::kGzip);
  }
}

RecordSink::~RecordSink() {
  drop();
  if (is_forked()) {
    static_cast<void>(threads_.release());
  } else if (threads_->writer.joinable()) {
    threads_->writer.join();
  }
}

void RecordSink::drop() noexcept {
  if (is_forked()) return;  // the lock may be held for ever here
  std::unique_lock lock(threads_->mutex);
  is_closing_ = is_dropped_ = true;
  threads_->has_work.notify_all();
  threads_->has_room.wait(lock, [this] { return is_done_ || !threads_->writer.joinable(); });
}

void RecordSink::note_thread() {
  if (is_forked()) return;
  std::lock_guard lock(threads_->mutex);
  adders_.add_this();
}

bool RecordSink::has_this_thread() const {
  if (is_forked()) return false;
  std::lock_guard lock(threads_->mutex);
  return adders_.has_this();
}

bool RecordSink::is_forked() const noexcept { return forks() != forks_; }

Fault RecordSink::check() const {
  if (fault_) return fault_;
  if (is_closing_) return Fault::io("the writer is closed", EBADF);
  return {};
}

bool RecordSink::try_add(std::span<const uint8_t> payload, Fault& fault) {
  const size_t size = payload.size() + kFraming;
  if (size > kSmall || is_forked()) return false;
  bool has_queued = false;
  {
    std::lock_guard lock(threads_->mutex);
    adders_.add_this();
    if (fault_ || is_closing_) {
      fault = check();
      return true;
    }
    if (chunk_.size() + size > kChunk) {
      if (!threads_->writer.joinable() || waiting_bytes_ + chunk_.size() > kMostWaiting) return false;
      queue(std::move(chunk_));
      has_queued = true;
    }
    write_frame(payload, extend_chunk(size));
  }
  // Without the lock, or the writer would wake up only to wait for it, and who adds the next for the writer.
  if (has_queued) threads_->has_work.notify_one();
  return true;
}

uint8_t* RecordSink::extend_chunk(size_t size) {
  const size_t held = chunk_.size();
  if (chunk_.capacity() == 0) chunk_.resize(kChunk);
  chunk_.resize(held + size);
  return chunk_.data() + held;
}

void RecordSink::queue(Buffer&& chunk) {
  producers_core_ = sched_getcpu();
  waiting_bytes_ += chunk.size();
  waiting_.push_back(std::move(chunk));
}

Fault RecordSink::add(std::span<const uint8_t> payloads, std::span<const uint64_t> offsets,
                      const Interrupted& interrupted) {
  size_t size = 0;
  for (size_t row = 0; row + 1 < offsets.size(); ++row) {
    if (offsets[row + 1] < offsets[row] || offsets[row + 1] > payloads.size()) {
      return Fault::schema("the offsets of the records fall, or lie beyond their bytes", "");
    }
    size += static_cast<size_t>(offsets[row + 1] - offsets[row]) + kFraming;
  }
  Buffer frames(size);  // outside of the lock, so that several threads do it at the same time
  uint8_t* out = frames.data();
  for (size_t row = 0; row + 1 < offsets.size(); ++row) {
    out = write_frame(payloads.subspan(offsets[row], offsets[row + 1] - offsets[row]), out);
  }
  return add_frames(std::move(frames), interrupted);
}

Fault RecordSink::add_frames(Buffer&& frames, const Interrupted& interrupted) {
  if (is_forked()) return forked();
  const size_t size = frames.size();
  std::unique_lock lock(threads_->mutex);
  adders_.add_this();
  if (size > kSmall || chunk_.size() + size > kChunk) {
    // In front of the new ones, because the same thread may have added them.
    if (Fault fault = put(std::move(chunk_), lock, interrupted)) return fault;
  }
  if (size > kSmall) return put(std::move(frames), lock, interrupted);
  if (Fault fault = check()) return fault;
  std::copy_n(frames.data(), size, extend_chunk(size));
  return {};
}

Fault RecordSink::put(Buffer&& chunk, std::unique_lock<std::mutex>& lock, const Interrupted& interrupted) {
  if (Fault fault = check()) return fault;
  if (chunk.size() == 0) return {};
  if (!threads_->writer.joinable()) {
    if (Fault fault = start()) return fault_ = fault;
  }
  queue(std::move(chunk));
  threads_->has_work.notify_one();
  // After, not before: what was given must not be lost by an interrupt.
  while (waiting_bytes_ > kMostWaiting && !fault_ && !is_done_) {
    if (threads_->has_room.wait_for(lock, kPatience) == std::cv_status::no_timeout) continue;
    lock.unlock();
    const bool stop = interrupted && interrupted();
    lock.lock();
    if (stop) return canceled();
  }
  return is_dropped_ ? check() : fault_;  // after close(), what was given is written
}

Fault RecordSink::start() {
  try {
    threads_->writer = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    return Fault::io("no thread could be started to write", error.code().value());
  }
  return {};
}

void RecordSink::work() {
  take_short_turns();
  std::unique_lock lock(threads_->mutex);
  while (!fault_ && !is_dropped_) {
    threads_->has_work.wait(lock, [this] { return !waiting_.empty() || is_closing_; });
    if (is_dropped_ || waiting_.empty()) break;
    Buffer chunk = std::move(waiting_.front());
    waiting_.pop_front();
    const size_t size = chunk.size();
    const int core = producers_core_;
    lock.unlock();
    leave(core);
    Fault fault = write_out(chunk.bytes());
    chunk = Buffer();  // here, because to give memory back may take long
    lock.lock();
    waiting_bytes_ -= size;
    fault_ = std::move(fault);
    threads_->has_room.notify_all();
  }
  if (!fault_ && !is_dropped_) {
    lock.unlock();
    Fault fault = finish();
    lock.lock();
    fault_ = std::move(fault);
  }
  waiting_.clear();
  waiting_bytes_ = 0;
  is_done_ = true;
  threads_->has_room.notify_all();
}

Fault RecordSink::close(const Interrupted& interrupted) {
  if (is_forked()) return forked();
  std::unique_lock lock(threads_->mutex);
  if (!is_closing_) {
    if (fault_) return fault_;
    is_closing_ = true;
    if (!threads_->writer.joinable()) {  // there was not enough for it
      is_done_ = true;
      fault_ = write_out(chunk_.bytes());
      if (!fault_) fault_ = finish();
      return fault_;
    }
    if (chunk_.size() != 0) queue(std::move(chunk_));
    threads_->has_work.notify_all();
  }
  while (!is_done_) {
    if (threads_->has_room.wait_for(lock, kPatience) == std::cv_status::no_timeout) continue;
    lock.unlock();
    const bool stop = interrupted && interrupted();
    lock.lock();
    if (stop) return canceled();
  }
  return fault_;
}

Fault RecordSink::write_out(std::span<const uint8_t> bytes) {
  if (!deflater_) return write_all(bytes);
  return deflater_->deflate_all(bytes, false, [this](auto out) { return write_all(out); });
}

Fault RecordSink::finish() {
  if (!deflater_) return {};
  return deflater_->deflate_all({}, true, [this](auto out) { return write_all(out); });
}

Fault RecordSink::write_all(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), std::min(bytes.size(), kPiece));
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return Fault::io(std::strerror(errno), errno);
    }
  }
  return {};
}

}  // namespace feedline
