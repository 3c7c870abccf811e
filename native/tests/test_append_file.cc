#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "core/append_file.h"
#include "core/record_reader.h"
#include "tests/check.h"
#include "tests/samples.h"

namespace feedline {
namespace {

using namespace samples;

// A directory that goes with what is in it; appending is about names, so memory without one does not do.
struct Directory {
  Directory() { CHECK(::mkdtemp(name) != nullptr); }
  ~Directory() {
    ::unlink(file().c_str());
    ::unlink((file() + ".old").c_str());
    ::rmdir(name);
  }
  std::string file() const { return std::string(name) + "/a.tfrecord"; }

  char name[32] = "/tmp/feedline-test-XXXXXX";
};

void store(const std::string& path, const Bytes& bytes, int how = O_TRUNC) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | how, 0666);
  CHECK_EQ(::write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  ::close(file);
}

Bytes stored(const std::string& path) {
  Bytes bytes(1 << 20);
  const int file = ::open(path.c_str(), O_RDONLY);
  const ssize_t size = ::read(file, bytes.data(), bytes.size());
  ::close(file);
  bytes.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return bytes;
}

Fault append(AppendFile& file, const Bytes& payload) {
  const Bytes frame = samples::framed(payload);
  return file.append(frame, 1, {});
}

std::unique_ptr<AppendFile> open(const std::string& path, Fault* fault = nullptr) {
  std::unique_ptr<AppendFile> file;
  Fault found = AppendFile::open(path, 0, 0, {}, file);
  CHECK_EQ(static_cast<bool>(found), file == nullptr);
  if (fault != nullptr) *fault = std::move(found);
  return file;
}

TEST(two_writers_append_behind_each_other) {
  const Directory directory;
  const auto a = open(directory.file()), b = open(directory.file());
  Bytes wanted;
  for (uint8_t i = 0; i < 50; ++i) {
    const Bytes bytes = payload(i * 100, i);
    CHECK(!append(i % 3 == 0 ? *a : *b, bytes));
    wanted += samples::framed(bytes);
  }
  CHECK(stored(directory.file()) == wanted);
  CHECK(!a->sync());
}

TEST(a_tail_that_is_torn_anywhere_is_cut_by_the_next_open_and_by_the_next_append) {
  const Bytes whole = samples::framed(payload(30, 1)) + samples::framed(payload(40, 2));
  const Bytes last = samples::framed(payload(70, 3)), next = samples::framed(payload(5, 4));
  for (const Bytes& before : {Bytes{}, whole}) {
    for (size_t size = 0; size < last.size(); ++size) {
      const Directory directory;
      store(directory.file(), before);
      const auto running = open(directory.file());
      const Bytes torn(last.begin(), last.begin() + static_cast<ptrdiff_t>(size));
      store(directory.file(), torn, O_APPEND);
      CHECK(!append(*running, payload(5, 4)));
      if (!CHECK(stored(directory.file()) == before + next)) return;

      store(directory.file(), before + torn);
      open(directory.file());
      if (!CHECK(stored(directory.file()) == before)) return;
    }
  }
}

TEST(a_last_record_without_its_bytes_is_a_torn_tail) {
  const Directory directory;
  const Bytes whole = samples::framed(payload(30, 1));
  store(directory.file(), whole + header(1000) + Bytes(1004));
  open(directory.file());
  CHECK(stored(directory.file()) == whole);
  store(directory.file(), whole + Bytes(10'000));
  open(directory.file());
  CHECK(stored(directory.file()) == whole);
}

TEST(damage_with_sound_records_behind_it_is_a_fault_and_stays) {
  const Bytes good = samples::framed(payload(30, 1));
  Bytes bad_header = good;
  bad_header[9] ^= 1;
  for (const Bytes& damaged : {good + bad_header + good, good + header(5000) + Bytes(50) + good,
                               good + text("junk") + good + Bytes{1, 2, 3}}) {
    const Directory directory;
    store(directory.file(), damaged);
    Fault fault;
    open(directory.file(), &fault);
    CHECK_EQ(fault.kind, FaultKind::kCorrupt);
    CHECK_EQ(fault.path, directory.file());
    CHECK_EQ(fault.record, 1);
    CHECK_EQ(fault.offset, static_cast<int64_t>(good.size()));
    CHECK(stored(directory.file()) == damaged);
  }
}

TEST(a_file_that_never_held_records_is_not_emptied) {
  for (const Bytes& other : {text("a text that is longer than a header\n"), text("six by"), Bytes(5000),
                             gzipped(samples::framed(payload(30, 1)))}) {
    const Directory directory;
    store(directory.file(), other);
    Fault fault;
    open(directory.file(), &fault);
    CHECK_EQ(fault.kind, FaultKind::kCorrupt);
    CHECK_EQ(fault.offset, 0);
    CHECK(stored(directory.file()) == other);
  }
}

TEST(records_go_to_the_file_that_has_the_name) {
  const Directory directory;
  const Bytes one = samples::framed(payload(10, 1)), two = samples::framed(payload(20, 2));
  const auto file = open(directory.file());
  CHECK(!append(*file, payload(10, 1)));
  CHECK_EQ(::rename(directory.file().c_str(), (directory.file() + ".old").c_str()), 0);
  CHECK(!append(*file, payload(20, 2)));
  CHECK(stored(directory.file()) == two);
  CHECK(stored(directory.file() + ".old") == one);
  // Emptied, and grown by somebody else to a size where no record of before ended.
  store(directory.file(), two + two + samples::framed(payload(3, 3)));
  CHECK(!append(*file, payload(10, 1)));
  CHECK(stored(directory.file()) == two + two + samples::framed(payload(3, 3)) + one);
  store(directory.file(), {});
  CHECK(!append(*file, payload(10, 1)));
  CHECK(stored(directory.file()) == one);
}

TEST(a_wait_for_the_lock_ends_when_it_is_interrupted) {
  const Directory directory;
  const auto file = open(directory.file());
  const int other = ::open(directory.file().c_str(), O_RDWR);
  CHECK_EQ(::flock(other, LOCK_EX), 0);
  int asked = 0;
  const Bytes frame = samples::framed(payload(10, 1));
  const Fault fault = file->append(frame, 1, [&] { return ++asked == 2; });
  CHECK_EQ(fault.os_error, ECANCELED);
  ::close(other);
  CHECK(!append(*file, payload(10, 1)));
  CHECK(stored(directory.file()) == frame);
}

TEST(large_records_are_walked_over_by_their_headers) {
  const Directory directory;
  const Bytes large = samples::framed(payload(300'000, 1)), small = samples::framed(payload(10, 2));
  store(directory.file(), small + large + small + small + large + large + small);
  const auto file = open(directory.file());
  CHECK(!append(*file, payload(10, 2)));
  struct stat now{};
  ::stat(directory.file().c_str(), &now);
  CHECK_EQ(now.st_size, static_cast<off_t>(3 * large.size() + 5 * small.size()));
}

// A reader: what is just being appended is not part of the file yet; what is torn for good is damage.
TEST(a_record_that_is_being_appended_is_not_read) {
  using OnDamage = RecordReader::OnDamage;
  const Bytes whole = samples::framed(payload(30, 1)), last = samples::framed(payload(100, 2));
  for (const OnDamage on_damage : {OnDamage::kStop, OnDamage::kResync}) {
    for (const size_t part : {size_t{5}, size_t{50}}) {
      for (const char* then : {"locked", "finished", "taken back", "torn"}) {
        const Directory directory;
        store(directory.file(), whole + Bytes(last.begin(), last.begin() + static_cast<ptrdiff_t>(part)));
        std::unique_ptr<RecordReader> reader;
        CHECK(!RecordReader::open(directory.file(), Compression::kAuto, on_damage, reader));
        const int writer = ::open(directory.file().c_str(), O_RDWR);
        if (then == std::string("locked")) CHECK_EQ(::flock(writer, LOCK_EX), 0);
        if (then == std::string("finished")) store(directory.file(), whole + last);
        if (then == std::string("taken back")) CHECK_EQ(::ftruncate(writer, 46), 0);
        RecordBatch batch;
        const Fault fault = reader->next(SIZE_MAX, SIZE_MAX, batch);
        CHECK_EQ(batch.records.size(), 1u);
        CHECK_EQ(fault || !batch.skipped.empty(), then == std::string("torn"));
        ::close(writer);
      }
    }
  }
}

}  // namespace
}  // namespace feedline
