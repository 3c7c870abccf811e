#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "core/framing.h"
#include "core/record_sink.h"
#include "tests/check.h"
#include "tests/samples.h"

namespace feedline {
namespace {

using samples::Bytes;
using samples::operator+=;

class File {
 public:
  File() : descriptor(::memfd_create("feedline-test", MFD_CLOEXEC)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(descriptor); }

  Bytes content() const {
    Bytes bytes(static_cast<size_t>(::lseek(descriptor, 0, SEEK_END)));
    CHECK_EQ(::pread(descriptor, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return bytes;
  }

  const int descriptor;
};

Fault add(RecordSink& sink, const Bytes& payload, const RecordSink::Interrupted& interrupted = {}) {
  Fault fault;
  if (sink.try_add(payload, fault)) return fault;
  const uint64_t offsets[2] = {0, payload.size()};
  return sink.add(payload, offsets, interrupted);
}

TEST(records_of_all_sizes_are_framed_in_their_order) {
  const File file;
  Bytes wanted;
  RecordSink sink(file.descriptor, Compression::kNone);
  for (const size_t size : {0, 1, 100, 70'000, 3, 5'000'000, 65'520, 65'521, 0, 1'048'576}) {
    const Bytes payload(size, static_cast<uint8_t>(size));
    wanted += samples::framed(payload);
    CHECK(!add(sink, payload));
  }
  CHECK(!sink.close({}));
  CHECK(file.content() == wanted);
}

TEST(many_records_at_once_come_whole) {
  const File file;
  Bytes payloads(3'000'000), wanted;
  for (size_t i = 0; i < payloads.size(); ++i) payloads[i] = static_cast<uint8_t>(i * 7);
  std::vector<uint64_t> offsets{0};
  while (offsets.back() < payloads.size()) {
    offsets.push_back(std::min<uint64_t>(payloads.size(), offsets.back() + offsets.size() * 3));
    const auto at = payloads.begin();
    wanted += samples::framed(
        Bytes(at + static_cast<long>(offsets[offsets.size() - 2]), at + static_cast<long>(offsets.back())));
  }
  RecordSink sink(file.descriptor, Compression::kNone);
  CHECK(!sink.add(payloads, offsets, {}));
  CHECK(!sink.close({}));
  CHECK(file.content() == wanted);
}

TEST(offsets_that_do_not_fit_are_a_fault) {
  const File file;
  RecordSink sink(file.descriptor, Compression::kNone);
  const Bytes payloads(10);
  for (const std::vector<uint64_t>& offsets :
       {std::vector<uint64_t>{0, 11}, {5, 3}, {0, ~uint64_t{0}}, {11, 11}}) {
    CHECK(sink.add(payloads, offsets, {}).kind == FaultKind::kSchema);
  }
  CHECK(!sink.add(payloads, {}, {}));
  CHECK(!sink.close({}));
  CHECK(file.content().empty());
}

TEST(threads_add_records_whole_and_in_their_order) {
  const File file;
  constexpr size_t kThreads = 4, kEach = 5000;
  {
    RecordSink sink(file.descriptor, Compression::kNone);
    std::vector<std::thread> threads;
    for (size_t number = 0; number < kThreads; ++number) {
      threads.emplace_back([&sink, number] {
        for (uint32_t i = 0; i < kEach; ++i) {
          Bytes payload(i % 1000 == 7 ? 200'000 : i % 300 + 8, static_cast<uint8_t>(number));
          std::copy_n(reinterpret_cast<const uint8_t*>(&i), 4, payload.begin() + 1);
          CHECK(!add(sink, payload));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(!sink.close({}));
  }
  uint32_t next[kThreads] = {};
  const Bytes content = file.content();
  for (size_t at = 0; at < content.size();) {
    CHECK(header_holds(content.data() + at));
    const uint8_t* payload = content.data() + at + kHeaderSize;
    CHECK_EQ(load<uint32_t>(payload + 1), next[payload[0]]++);
    at += header_length(content.data() + at) + kFraming;
  }
  for (const uint32_t count : next) CHECK_EQ(count, kEach);
}

TEST(after_a_failed_write_every_call_tells_of_it) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    RecordSink sink(full, compression);
    Fault fault;
    for (size_t i = 0; i < 100'000 && !fault; ++i) fault = add(sink, Bytes(10'000, static_cast<uint8_t>(i)));
    CHECK_EQ(fault.os_error, ENOSPC);
    CHECK_EQ(add(sink, Bytes(1)).os_error, ENOSPC);
    CHECK_EQ(add(sink, Bytes(1'000'000)).os_error, ENOSPC);
    CHECK_EQ(sink.close({}).os_error, ENOSPC);
  }
  RecordSink small(full, Compression::kNone);
  CHECK(!add(small, Bytes(10)));
  CHECK_EQ(small.close({}).os_error, ENOSPC);
  ::close(full);
}

TEST(nothing_is_added_after_close) {
  const File file;
  RecordSink sink(file.descriptor, Compression::kNone);
  CHECK(!add(sink, Bytes(3)));
  CHECK(!sink.close({}));
  CHECK(!sink.close({}));
  CHECK_EQ(add(sink, Bytes(3)).os_error, EBADF);
  CHECK_EQ(add(sink, Bytes(3'000'000)).os_error, EBADF);
  CHECK_EQ(file.content().size(), 3 + kFraming);
}

// A pipe that takes nothing, until it is told to.
class Stuck {
 public:
  Stuck() { CHECK_EQ(::pipe2(ends_, O_CLOEXEC), 0); }
  ~Stuck() {
    ::close(ends_[1]);
    if (reader_.joinable()) reader_.join();
    ::close(ends_[0]);
  }
  int descriptor() const { return ends_[1]; }
  void read_all() {
    reader_ = std::thread([this] {
      Bytes bytes(1 << 16);
      while (::read(ends_[0], bytes.data(), bytes.size()) > 0) {
      }
    });
  }

 private:
  int ends_[2];
  std::thread reader_;
};

TEST(a_wait_for_room_can_be_interrupted_and_the_rest_dropped) {
  Stuck pipe;
  RecordSink sink(pipe.descriptor(), Compression::kNone);
  int asked = 0;
  Fault fault;
  while (!fault) fault = add(sink, Bytes(1'000'000), [&asked] { return ++asked == 2; });
  CHECK_EQ(fault.os_error, ECANCELED);
  CHECK_EQ(asked, 2);
  pipe.read_all();  // so that the write that is going on ends
  sink.drop();
  CHECK_EQ(add(sink, Bytes(1)).os_error, EBADF);
}

TEST(small_records_are_taken_at_once_unless_the_thread_is_behind) {
  Stuck pipe;
  RecordSink sink(pipe.descriptor(), Compression::kNone);
  CHECK(!add(sink, Bytes(1'000'000)));  // the thread has begun, and does not get far
  const Bytes record(1000);
  Fault fault;
  size_t taken = 0;
  while (sink.try_add(record, fault)) ++taken;
  CHECK(!fault);
  CHECK(taken > 5'000 && taken < 9'000);
  CHECK(!sink.try_add(record, fault));
  pipe.read_all();
  CHECK(!add(sink, record));
  CHECK(!sink.close({}));
  CHECK(sink.try_add(record, fault));
  CHECK_EQ(fault.os_error, EBADF);
}

TEST(who_waits_for_room_is_told_when_all_is_dropped) {
  Stuck pipe;
  RecordSink sink(pipe.descriptor(), Compression::kNone);
  std::vector<std::thread> threads;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Fault fault;
      while (!fault) fault = add(sink, Bytes(4'000'000));
      refused += fault.os_error == EBADF;
    });
  }
  usleep(100'000);
  pipe.read_all();
  sink.drop();
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(refused.load(), 4);
}

TEST(who_waits_for_room_goes_on_when_all_is_written_meanwhile) {
  Stuck pipe;
  RecordSink sink(pipe.descriptor(), Compression::kNone);
  CHECK(!add(sink, Bytes(10)));
  std::atomic<bool> asked = false, closed = false;
  std::thread producer([&] {
    Fault fault;
    while (!fault) {
      fault = add(sink, Bytes(6'000'000), [&] {
        asked = true;
        while (!closed) usleep(1000);
        return false;
      });
    }
    CHECK_EQ(fault.os_error, EBADF);
  });
  while (!asked) usleep(1000);
  CHECK(!add(sink, Bytes(10)));  // so that close() has something to add
  pipe.read_all();
  CHECK(!sink.close({}));
  closed = true;
  producer.join();
}

TEST(compressed_files_are_read_back) {
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    const File file;
    RecordSink sink(file.descriptor, compression);
    for (size_t i = 0; i < 300; ++i) CHECK(!add(sink, Bytes(i * 100, static_cast<uint8_t>(i))));
    CHECK(!sink.close({}));
    std::unique_ptr<ByteSource> source;
    CHECK(!ByteSource::open("/proc/self/fd/" + std::to_string(file.descriptor), compression, source));
    Bytes wanted;
    for (size_t i = 0; i < 300; ++i) wanted += samples::framed(Bytes(i * 100, static_cast<uint8_t>(i)));
    Bytes found(wanted.size() + 1);
    size_t got = 0;
    CHECK(!source->read(found, got));
    found.resize(got);
    CHECK(found == wanted);
  }
}

TEST(a_sink_knows_whether_the_calling_thread_has_added_records) {
  const File file;
  RecordSink sink(file.descriptor, Compression::kNone);
  CHECK(!sink.has_this_thread());
  const auto knows_after = [&](auto&& act) {
    bool before = true, after = false;
    std::thread([&] {
      before = sink.has_this_thread();
      act();
      after = sink.has_this_thread();
    }).join();  // the next one often has the same pthread_self()
    return !before && after;
  };
  CHECK(knows_after([&] { CHECK(!add(sink, Bytes(10))); }));
  CHECK(knows_after([&] { CHECK(!add(sink, Bytes(100'000))); }));
  CHECK(knows_after([&] { CHECK(!sink.add_frames(Buffer(0), {})); }));
  CHECK(knows_after([&] { sink.note_thread(); }));
  CHECK(!sink.close({}));
  CHECK(knows_after([&] { CHECK_EQ(add(sink, Bytes(10)).os_error, EBADF); }));
  CHECK(!sink.has_this_thread());
}

TEST(a_forked_child_adds_nothing_and_waits_for_nothing) {
  const File file;
  auto sink = std::make_unique<RecordSink>(file.descriptor, Compression::kNone);
  for (size_t i = 0; i < 40; ++i) CHECK(!add(*sink, Bytes(100'000)));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = add(*sink, Bytes(1)).os_error == EBADF && sink->close({}).os_error == EBADF;
    sink->drop();
    sink.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(::waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(!sink->close({}));
  CHECK_EQ(file.content().size(), 40 * (100'000 + kFraming));
}

}  // namespace
}  // namespace feedline
