// Records -> a file. Any number of threads add records; a thread of the sink's compresses and writes them.
//
// Records are framed into chunks of memory. Full chunks wait for the thread, and while many do, so does who
// adds more: a slow disk slows the producers down, and memory stays bounded. After a write has failed, every
// call gives its fault.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "core/buffer.h"
#include "core/fault.h"
#include "core/source.h"
#include "core/thread_set.h"

namespace feedline {

class RecordSink {
 public:
  // Asked ten times a second while there is no room; true ends the wait with ECANCELED.
  using Interrupted = std::function<bool()>;

  // Writes to the descriptor from where it stands. It stays the caller's, and open until the sink is gone.
  RecordSink(int descriptor, Compression compression);
  RecordSink(const RecordSink&) = delete;
  RecordSink& operator=(const RecordSink&) = delete;
  // drop()
  ~RecordSink();

  // Adds one record, unless that would take long, as for a large one or while the thread is behind: false,
  // then, and nothing was added. `fault` is set when it never can be.
  bool try_add(std::span<const uint8_t> payload, Fault& fault);

  // Adds record i, which lies between offsets i and i + 1 of the payloads, for all but the last offset.
  // All of them or, with a fault, none, unless it is that of an interrupt.
  Fault add(std::span<const uint8_t> payloads, std::span<const uint64_t> offsets,
            const Interrupted& interrupted);

  // Adds whole frames, the bytes of a file.
  Fault add_frames(Buffer&& frames, const Interrupted& interrupted);

  // Returns when the kernel has all that was added. Called again after an interrupt, it goes on.
  Fault close(const Interrupted& interrupted);

  // Counts the calling thread among those that add records, as adding one does.
  void note_thread();
  // Has the calling thread added records, or tried to? Never in a forked child.
  bool has_this_thread() const;

  // What was not written will not be: once it returns, nothing more is written. In a forked child, which has
  // no such thread, nothing is done.
  void drop() noexcept;

 private:
  class Deflater;

  // What a forked child can neither use nor destroy.
  struct Threads {
    std::mutex mutex;
    std::condition_variable has_room, has_work;
    std::thread writer;
  };

  bool is_forked() const noexcept;
  // These with the lock held.
  Fault check() const;
  uint8_t* extend_chunk(size_t size);  // where so many more bytes go
  void queue(Buffer&& chunk);
  Fault put(Buffer&& chunk, std::unique_lock<std::mutex>& lock, const Interrupted& interrupted);
  Fault start();

  void work();
  Fault write_out(std::span<const uint8_t> bytes);
  Fault write_all(std::span<const uint8_t> bytes);
  Fault finish();

  const int descriptor_;
  const unsigned forks_;  // when it was made
  std::unique_ptr<Deflater> deflater_;
  std::unique_ptr<Threads> threads_;

  ThreadSet adders_;            // the threads that add records
  Buffer chunk_;                // that small records are added to
  std::deque<Buffer> waiting_;  // for the thread
  size_t waiting_bytes_ = 0;    // with those that it writes
  int producers_core_ = -1;     // that the last of them came from
  Fault fault_;
  bool is_closing_ = false;  // nothing more is added
  bool is_dropped_ = false;  // nothing more is written
  bool is_done_ = false;     // the thread has ended
};

}  // namespace feedline
