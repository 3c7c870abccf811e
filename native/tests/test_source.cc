#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "core/crc32c.h"
#include "core/source.h"
#include "tests/check.h"

namespace feedline {
namespace {

using Bytes = std::vector<uint8_t>;

// A file in memory.
class File {
 public:
  explicit File(const Bytes& bytes) : descriptor_(::memfd_create("feedline-test", MFD_CLOEXEC)) {
    CHECK_EQ(::write(descriptor_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(descriptor_); }
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Half noise, half runs: deflate gives both literals and matches.
Bytes sample(size_t size) {
  std::mt19937 random(3);
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i % 64 < 32 ? random() : i / 64);
  return bytes;
}

Bytes deflated(const Bytes& bytes, int window_bits, int level = Z_DEFAULT_COMPRESSION) {
  z_stream zlib{};
  deflateInit2(&zlib, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&zlib, static_cast<uLong>(bytes.size())) + 64);
  zlib.next_in = const_cast<Bytef*>(bytes.data());
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = out.data();
  zlib.avail_out = static_cast<uInt>(out.size());
  CHECK_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

Bytes gzipped(const Bytes& bytes) { return deflated(bytes, 15 + 16); }
Bytes zlibbed(const Bytes& bytes) { return deflated(bytes, 15); }

struct Outcome {
  Bytes bytes;  // all that came in front of the fault, if there is one
  Fault fault;
  bool compressed = false;
  bool agrees = true;  // what the source says of itself fits what it gave
};

Outcome read_path(const std::string& path, Compression compression = Compression::kAuto, size_t step = 4096) {
  Outcome outcome;
  std::unique_ptr<ByteSource> source;
  outcome.fault = ByteSource::open(path, compression, source);
  if (outcome.fault) {
    outcome.agrees = source == nullptr;
    return outcome;
  }
  outcome.compressed = source->compressed();
  size_t got = step;
  while (got == step && !outcome.fault) {
    const size_t before = outcome.bytes.size();
    outcome.bytes.resize(before + step);
    outcome.fault = source->read(std::span(outcome.bytes).subspan(before), got);
    outcome.bytes.resize(before + got);
  }
  if (!outcome.fault) {
    uint8_t more;
    outcome.agrees = !source->read({&more, 1}, got) && got == 0;
    if (source->size()) outcome.agrees &= *source->size() == outcome.bytes.size();
    if (source->file_size() != 0) outcome.agrees &= source->consumed() == source->file_size();
  }
  return outcome;
}

Outcome read_bytes(const Bytes& stored, Compression compression = Compression::kAuto, size_t step = 4096) {
  const File file(stored);
  return read_path(file.path(), compression, step);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void check_reads(const Bytes& stored, const Bytes& expected, bool compressed, Compression given) {
  for (const size_t step : {1, 7, 12, 13, 1000, 1 << 20}) {
    const Outcome outcome = read_bytes(stored, given, step);
    CHECK_EQ(outcome.fault.what, "");
    CHECK_EQ(outcome.compressed, compressed);
    CHECK(outcome.bytes == expected);
    CHECK(outcome.agrees);
  }
}

void check_corrupt(const Outcome& outcome, const std::string& what) {
  CHECK(outcome.fault.kind == FaultKind::kCorrupt);
  CHECK(contains(outcome.fault.path, "/proc/self/fd/"));
  if (!contains(outcome.fault.what, what)) CHECK_EQ(outcome.fault.what, what);
}

Bytes record(uint64_t length) {
  Bytes bytes(12 + length);
  const uint32_t crc = masked_crc32c_u64(length);
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, &crc, 4);
  return bytes;
}

TEST(a_plain_file_is_read_as_it_is) {
  for (const size_t size : {1, 11, 12, 13, 5000, 300'000}) {
    check_reads(sample(size), sample(size), false, Compression::kAuto);
    check_reads(sample(size), sample(size), false, Compression::kNone);
  }
}

TEST(an_empty_file_has_no_bytes_whatever_its_compression_is_said_to_be) {
  for (const Compression given :
       {Compression::kAuto, Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    check_reads({}, {}, false, given);
  }
}

TEST(gzip_and_zlib_files_are_found_out_and_inflated) {
  for (const size_t size : {0, 1, 5000, 700'000}) {
    const Bytes bytes = sample(size);
    check_reads(gzipped(bytes), bytes, true, Compression::kAuto);
    check_reads(gzipped(bytes), bytes, true, Compression::kGzip);
    check_reads(zlibbed(bytes), bytes, true, Compression::kAuto);
    check_reads(zlibbed(bytes), bytes, true, Compression::kZlib);
  }
}

TEST(every_level_and_window_of_zlib_is_found_out) {
  Bytes bytes = record(500) + sample(20'000);
  for (int window = 9; window <= 15; ++window) {
    for (int level = 0; level <= 9; ++level) {
      const Outcome outcome = read_bytes(deflated(bytes, window, level));
      CHECK(outcome.compressed);
      CHECK(outcome.bytes == bytes);
    }
  }
}

TEST(a_run_of_zeros_inflates_through_a_small_buffer) {
  const Bytes zeros(20 << 20);
  const Outcome outcome = read_bytes(gzipped(zeros), Compression::kAuto, 1000);
  CHECK(outcome.bytes == zeros);
  CHECK(outcome.agrees);
}

TEST(members_of_a_gzip_file_are_one_stream) {
  Bytes stored, expected;
  for (size_t i = 0; i < 50; ++i) {
    const Bytes part(sample(i * i * 20));
    stored = stored + gzipped(part);
    expected = expected + part;
  }
  check_reads(stored, expected, true, Compression::kAuto);
}

TEST(thousands_of_empty_members_are_no_bytes) {
  Bytes stored;
  for (int i = 0; i < 20'000; ++i) stored = std::move(stored) + gzipped({});
  const Outcome outcome = read_bytes(stored);
  CHECK(!outcome.fault);
  CHECK(outcome.bytes.empty());
}

TEST(zeros_after_the_last_member_are_padding) {
  const Bytes bytes = sample(3000);
  for (const size_t zeros : {1, 511, 600'000}) {
    check_reads(gzipped(bytes) + gzipped(bytes) + Bytes(zeros), bytes + bytes, true, Compression::kAuto);
  }
}

TEST(other_bytes_after_the_stream_are_corrupt_and_those_in_front_of_them_are_kept) {
  const Bytes bytes = sample(3000);
  for (const Bytes& stored : {gzipped(bytes) + Bytes{'x'}, gzipped(bytes) + Bytes{0, 0, 'x'},
                              gzipped(bytes) + Bytes{0} + gzipped(bytes)}) {
    const Outcome outcome = read_bytes(stored);
    check_corrupt(outcome, "bytes that do not belong to it follow the gzip stream");
    CHECK(outcome.bytes == bytes);
  }
  for (const Bytes& stored : {zlibbed(bytes) + Bytes{0}, zlibbed(bytes) + zlibbed(bytes)}) {
    const Outcome outcome = read_bytes(stored);
    check_corrupt(outcome, "bytes that do not belong to it follow the zlib stream");
    CHECK(outcome.bytes == bytes);
  }
  check_corrupt(read_bytes(gzipped(bytes) + Bytes{0x1f, 'x', 1, 2}), "incorrect header check");
}

TEST(a_stream_cut_at_any_byte_ends_early_and_gives_what_it_has) {
  const Bytes bytes = sample(600);
  for (const bool gzip : {true, false}) {
    const Bytes whole = gzip ? gzipped(bytes) : zlibbed(bytes);
    for (size_t size = 3; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
      const Outcome outcome = read_bytes(cut, Compression::kAuto, 50);
      check_corrupt(outcome, gzip ? "the gzip stream ends early" : "the zlib stream ends early");
      CHECK(outcome.bytes.size() <= bytes.size());
      CHECK(std::equal(outcome.bytes.begin(), outcome.bytes.end(), bytes.begin()));
    }
  }
}

TEST(a_second_member_cut_at_any_byte_ends_early) {
  const Bytes bytes = sample(300);
  const Bytes first = gzipped(bytes), both = first + first;
  for (size_t size = first.size() + 1; size < both.size(); ++size) {
    const Outcome outcome = read_bytes(Bytes(both.begin(), both.begin() + static_cast<ptrdiff_t>(size)));
    check_corrupt(outcome, "the gzip stream ends early");
    CHECK(outcome.bytes.size() >= bytes.size());
  }
}

TEST(a_flipped_bit_is_noticed_or_harmless) {
  const Bytes bytes = sample(400);
  for (const bool gzip : {true, false}) {
    const Bytes whole = gzip ? gzipped(bytes) : zlibbed(bytes);
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      Bytes flipped = whole;
      flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      const Outcome outcome = read_bytes(flipped, gzip ? Compression::kGzip : Compression::kZlib);
      // gzip's header has bits that mean nothing to the data, such as the time of the file.
      CHECK(outcome.fault.kind == FaultKind::kCorrupt || outcome.bytes == bytes);
      CHECK(outcome.fault || outcome.agrees);
    }
  }
}

TEST(a_damaged_stream_gives_the_same_fault_again) {
  const Bytes bytes = sample(400);
  Bytes stored = gzipped(bytes);
  stored[stored.size() - 6] ^= 1;  // in the checksum of the data
  const File file(stored);
  std::unique_ptr<ByteSource> source;
  CHECK(!ByteSource::open(file.path(), Compression::kAuto, source));
  Bytes into(1000);
  size_t got = 0;
  const Fault first = source->read(into, got);
  CHECK_EQ(got, bytes.size());
  CHECK(contains(first.what, "incorrect data check"));
  const Fault second = source->read(into, got);
  CHECK_EQ(got, 0u);
  CHECK_EQ(second.what, first.what);
}

TEST(a_plain_record_whose_length_looks_compressed_is_plain) {
  for (const uint64_t length : {uint64_t{0x088b1f}, uint64_t{0x9c78}, uint64_t{0x0178}, uint64_t{0xda78}}) {
    const Bytes bytes = record(length);
    check_reads(bytes, bytes, false, Compression::kAuto);
  }
}

TEST(a_plain_record_whose_length_looks_like_zlib_is_plain_though_its_checksum_is_damaged) {
  Bytes bytes = record(0x9c78);
  bytes[9] ^= 0x40;
  check_reads(bytes, bytes, false, Compression::kAuto);
}

TEST(a_file_that_is_not_what_the_caller_says_is_corrupt_and_its_first_bytes_are_shown) {
  const Bytes plain = {0x0a, 0x00, 0xff, 0x10, 0x20};
  check_corrupt(read_bytes(plain, Compression::kGzip),
                "not a gzip stream: the first bytes are 0a 00 ff 10 20");
  check_corrupt(read_bytes(plain, Compression::kZlib),
                "not a zlib stream: the first bytes are 0a 00 ff 10 20");
  check_corrupt(read_bytes(zlibbed(sample(100)), Compression::kGzip),
                "not a gzip stream: the first bytes are 78 9c");
  check_corrupt(read_bytes(gzipped(sample(100)), Compression::kZlib),
                "not a zlib stream: the first bytes are 1f 8b");
}

TEST(a_zlib_stream_with_a_preset_dictionary_is_not_taken_for_one_we_can_read) {
  check_corrupt(read_bytes({0x78, 0xbb, 1, 2, 3, 4}, Compression::kZlib), "not a zlib stream");
}

TEST(compressed_bytes_are_left_alone_when_the_caller_says_so) {
  const Bytes stored = gzipped(sample(1000));
  check_reads(stored, stored, false, Compression::kNone);
}

TEST(what_cannot_be_opened_is_an_io_fault_with_its_errno) {
  const Outcome missing = read_path("/no/such/file");
  CHECK(missing.fault.kind == FaultKind::kIo);
  CHECK_EQ(missing.fault.os_error, ENOENT);
  CHECK_EQ(missing.fault.path, "/no/such/file");
  CHECK_EQ(missing.fault.what, "cannot open: No such file or directory");
  CHECK(missing.agrees);
  const Outcome directory = read_path("/tmp");
  CHECK(directory.fault.kind == FaultKind::kIo);
  CHECK_EQ(directory.fault.os_error, EISDIR);
  CHECK_EQ(read_path(std::string("/dev/null\0/x", 12)).fault.os_error, EINVAL);
}

TEST(a_plain_file_can_be_read_at_any_offset_without_moving_the_reader) {
  const Bytes bytes = sample(5000);
  const File file(bytes);
  std::unique_ptr<ByteSource> source;
  CHECK(!ByteSource::open(file.path(), Compression::kAuto, source));
  CHECK_EQ(source->size().value_or(0), 5000u);
  Bytes into(100);
  size_t got = 0;
  CHECK(!source->read_at(4000, into, got));
  CHECK_EQ(got, 100u);
  CHECK(std::equal(into.begin(), into.end(), bytes.begin() + 4000));
  CHECK(!source->read_at(4950, into, got));
  CHECK_EQ(got, 50u);
  CHECK(!source->read_at(1u << 30, into, got));
  CHECK_EQ(got, 0u);
  CHECK_EQ(source->read_at(~uint64_t{0} - 10, into, got).os_error, EINVAL);
  CHECK_EQ(source->consumed(), 0u);
  CHECK(!source->read(into, got));
  CHECK(std::equal(into.begin(), into.end(), bytes.begin()));
  CHECK_EQ(source->consumed(), 100u);
}

TEST(a_compressed_file_cannot_be_read_at_an_offset_and_its_size_is_not_known) {
  const File file(gzipped(sample(5000)));
  std::unique_ptr<ByteSource> source;
  CHECK(!ByteSource::open(file.path(), Compression::kAuto, source));
  CHECK(!source->size().has_value());
  uint8_t byte;
  size_t got = 1;
  CHECK_EQ(source->read_at(0, {&byte, 1}, got).os_error, ESPIPE);
  CHECK_EQ(got, 0u);
}

// Reads `stored` through a pipe into which it is written in pieces of `piece` bytes.
Outcome read_through_pipe(const Bytes& stored, Compression compression, size_t piece) {
  int ends[2];
  CHECK_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::thread writer([&] {
    for (size_t at = 0; at < stored.size();) {
      const ssize_t n = ::write(ends[1], stored.data() + at, std::min(piece, stored.size() - at));
      if (n < 0) break;
      at += static_cast<size_t>(n);
    }
    ::close(ends[1]);
  });
  Outcome outcome = read_path("/proc/self/fd/" + std::to_string(ends[0]), compression, 777);
  ::close(ends[0]);
  writer.join();
  return outcome;
}

TEST(a_pipe_is_read_to_its_end) {
  const Bytes bytes = sample(200'000);
  for (const size_t piece : {5, 1000, 200'000}) {
    CHECK(read_through_pipe(bytes, Compression::kAuto, piece).bytes == bytes);
    CHECK(read_through_pipe(bytes, Compression::kNone, piece).bytes == bytes);
    const Outcome inflated = read_through_pipe(gzipped(bytes), Compression::kAuto, piece);
    CHECK(inflated.compressed);
    CHECK(inflated.bytes == bytes);
    CHECK(inflated.agrees);
  }
  CHECK(read_through_pipe({}, Compression::kAuto, 1).bytes.empty());
}

TEST(a_pipe_has_no_size_and_cannot_be_read_at_an_offset) {
  int ends[2];
  CHECK_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::unique_ptr<ByteSource> source;
  CHECK(!ByteSource::open("/proc/self/fd/" + std::to_string(ends[0]), Compression::kNone, source));
  CHECK(!source->size().has_value());
  CHECK_EQ(source->file_size(), 0u);
  uint8_t byte;
  size_t got = 0;
  CHECK_EQ(source->read_at(0, {&byte, 1}, got).os_error, ESPIPE);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(descriptors_are_closed_again) {
  const File file(gzipped(sample(100)));
  const int next = ::dup(0);
  ::close(next);
  for (int i = 0; i < 10; ++i) {
    (void)read_path(file.path());
    (void)read_path(file.path(), Compression::kZlib);  // refused after it was opened
    (void)read_path("/tmp");
  }
  const int again = ::dup(0);
  ::close(again);
  CHECK_EQ(again, next);
}

}  // namespace
}  // namespace feedline
