#include "core/append_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "core/framing.h"
#include "core/record_reader.h"

namespace feedline {

namespace {

using std::chrono::microseconds;

constexpr size_t kMaxCall = size_t{1} << 30;  // Linux moves at most 2 GB per call
constexpr size_t kChunk = size_t{256} << 10;
constexpr size_t kHop = 4096;                               // of a walk over large records
constexpr uint64_t kWalkUnasked = uint64_t{256} << 20;      // bytes of a walk between two looks for Ctrl-C
constexpr size_t kSearchUnasked = size_t{8} << 20;          // the same for a search, which reads them all
constexpr uint64_t kPlausible = uint64_t{1} << 31;          // protobuf writes no longer records
constexpr microseconds kFirstWait{50}, kLongestWait{2000};  // a lock is held for some microseconds
constexpr microseconds kUnasked{50'000};
constexpr int kTries = 100;

// Does a file begin as one in which the first write was cut short? Others are not ours to empty.
bool may_be_header(std::span<const uint8_t> head) {
  if (head.size() >= kHeaderSize) return header_holds(head.data());
  uint8_t known[8] = {};
  std::copy_n(head.begin(), std::min<size_t>(head.size(), 8), known);
  const uint64_t length = header_length(known);
  if (length > kPlausible) return false;
  if (head.size() <= 8) return true;
  const uint32_t crc = masked_crc32c_u64(length);
  return std::memcmp(head.data() + 8, &crc, head.size() - 8) == 0;
}

}  // namespace

Fault AppendFile::open(const std::string& path, uint64_t known, int64_t known_records,
                       const Interrupted& interrupted, std::unique_ptr<AppendFile>& out) {
  std::unique_ptr<AppendFile> file(new AppendFile(path));
  file->end_ = known;
  file->records_ = known_records;
  Fault fault = file->begin(interrupted);
  if (fault) return fault;
  file->unlock();
  out = std::move(file);
  return {};
}

Fault AppendFile::append(std::span<const uint8_t> frames, int64_t records, const Interrupted& interrupted) {
  if (Fault fault = begin(interrupted)) return fault;
  size_t done = 0;
  int error = 0;
  while (done < frames.size() && error == 0) {
    const ssize_t n = ::pwrite(descriptor_, frames.data() + done, std::min(frames.size() - done, kMaxCall),
                               static_cast<off_t>(end_ + done));
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      error = n == 0 ? ENOSPC : errno;
    }
  }
  if (error != 0) {
    // Should this fail too, the next to write finds a torn tail.
    [[maybe_unused]] const int cut = ::ftruncate(descriptor_, static_cast<off_t>(end_));
  } else if (!frames.empty()) {
    set_end(end_ + frames.size(), records_ + records);
    std::ranges::copy(frames.last(kFooterSize), footer_.begin());
  }
  unlock();
  return error != 0 ? os_fault("writing", error) : Fault{};
}

Fault AppendFile::sync() {
  if (descriptor_ < 0) return {};
  if (::fsync(descriptor_) != 0) return os_fault("flushing", errno);
  if (dir_synced_) return {};
  // The name of a new file is in its directory, which is a file of its own.
  const size_t slash = path_.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int opened = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return os_fault("flushing its directory", errno);
  const int error = ::fsync(opened) != 0 ? errno : 0;
  ::close(opened);
  if (error != 0 && error != EINVAL) return os_fault("flushing its directory", error);
  dir_synced_ = true;
  return {};
}

void AppendFile::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Fault AppendFile::open_file(const Interrupted& interrupted) {
  // Not blocking: a pipe without a reader would wait for one. It means nothing for a file.
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor_ < 0) return os_fault("opening", errno);
  dir_synced_ = false;
  struct stat now{};
  if (::fstat(descriptor_, &now) != 0) return os_fault("opening", errno);
  if (!S_ISREG(now.st_mode)) {
    close();
    return os_fault("it is no regular file", EINVAL);
  }
  // Whole records stay as they are, so most of the way is gone before others have to wait for us.
  const auto size = static_cast<uint64_t>(now.st_size);
  if (end_ > size) set_end(0, 0);
  Fault fault = walk(size, interrupted);
  return fault ? fault : remember_end();
}

Fault AppendFile::begin(const Interrupted& interrupted) {
  for (int tries = 0; tries < kTries; ++tries) {
    if (descriptor_ < 0) {
      if (Fault fault = open_file(interrupted)) return fault;
    }
    if (Fault fault = lock(interrupted)) return fault;
    if (is_still_the_file()) {
      Fault fault = cut_tail(interrupted);
      if (fault) unlock();
      return fault;
    }
    close();
    set_end(0, 0);
  }
  return os_fault("its name means another file each time", ESTALE);
}

Fault AppendFile::lock(const Interrupted& interrupted) {
  microseconds wait = kFirstWait, unasked{0};
  while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return os_fault("locking", errno);
    // flock() that waits would notice no signal that came just before it.
    std::this_thread::sleep_for(wait);
    unasked += wait;
    wait = std::min(wait * 2, kLongestWait);
    if (unasked < kUnasked) continue;
    if (interrupted && interrupted()) return os_fault("interrupted", ECANCELED);
    unasked = microseconds{0};
  }
  return {};
}

void AppendFile::unlock() noexcept { ::flock(descriptor_, LOCK_UN); }

bool AppendFile::is_still_the_file() const noexcept {
  struct stat named{}, held{};
  if (::stat(path_.c_str(), &named) != 0 || ::fstat(descriptor_, &held) != 0) return false;
  return named.st_dev == held.st_dev && named.st_ino == held.st_ino;
}

Fault AppendFile::cut_tail(const Interrupted& interrupted) {
  struct stat now{};
  if (::fstat(descriptor_, &now) != 0) return os_fault("writing", errno);
  const auto size = static_cast<uint64_t>(now.st_size);
  if (size == end_) return {};
  // Somebody has emptied the file; it may have grown since, and then its records end elsewhere.
  if (size < end_ || !end_holds()) set_end(0, 0);
  Fault fault = walk(size, interrupted);
  if (!fault && end_ != size) fault = judge_tail(interrupted);
  if (!fault && end_ != size && ::ftruncate(descriptor_, static_cast<off_t>(end_)) != 0)
    fault = os_fault("writing", errno);
  return fault ? fault : remember_end();
}

Fault AppendFile::walk(uint64_t size, const Interrupted& interrupted) {
  if (size - end_ < kFraming) return {};
  Buffer chunk(static_cast<size_t>(std::min<uint64_t>(size - end_, kChunk)));
  uint64_t from = end_, ask_at = end_ + kWalkUnasked;
  size_t held = 0, wanted = chunk.size();
  while (size - end_ >= kFraming) {
    if (end_ + kFraming > from + held) {
      from = end_;
      if (Fault fault = read_at(from, chunk.bytes().first(std::min<uint64_t>(wanted, size - from)), held))
        return fault;
      if (held < kFraming) return {};
    }
    const uint8_t* const header = chunk.data() + (end_ - from);
    const uint64_t length = header_length(header);
    if (!header_holds(header) || length > size - end_ - kFraming) return {};
    const uint64_t next = end_ + kFraming + length;
    if (next == size) {
      bool holds = false;
      if (Fault fault = last_payload_holds(end_, length, chunk, holds)) return fault;
      if (!holds) return {};
    }
    // Between large records only their headers are read.
    wanted = length > kChunk / 4 ? std::min(kHop, chunk.size()) : chunk.size();
    set_end(next, records_ + 1);
    if (end_ < ask_at) continue;
    if (interrupted && interrupted()) return os_fault("interrupted", ECANCELED);
    ask_at = end_ + kWalkUnasked;
  }
  return {};
}

Fault AppendFile::last_payload_holds(uint64_t offset, uint64_t length, Buffer& chunk, bool& holds) const {
  uint32_t crc = 0;
  size_t got = 0;
  uint64_t at = offset + kHeaderSize;
  for (uint64_t left = length; left > 0; left -= got, at += got) {
    const auto wanted = chunk.bytes().first(static_cast<size_t>(std::min<uint64_t>(left, chunk.size())));
    if (Fault fault = read_at(at, wanted, got)) return fault;
    if (got < wanted.size()) return {};
    crc = crc32c(wanted, crc);
  }
  uint8_t footer[kFooterSize];
  if (Fault fault = read_at(at, footer, got)) return fault;
  holds = got == kFooterSize && mask_crc(crc) == load<uint32_t>(footer);
  return {};
}

Fault AppendFile::judge_tail(const Interrupted& interrupted) const {
  if (end_ == 0) {
    uint8_t head[kHeaderSize];
    size_t got = 0;
    if (Fault fault = read_at(0, head, got)) return fault;
    if (!may_be_header({head, got})) return corrupt("the file does not begin with a record");
  }
  // A writer that knew no lock may have gone on behind a torn record: then there are good records in it.
  std::unique_ptr<RecordReader> reader;
  Fault fault = RecordReader::open("/proc/self/fd/" + std::to_string(descriptor_), Compression::kNone,
                                   RecordReader::OnDamage::kResync, reader, {}, {0, end_, records_});
  std::string what;
  while (!fault && !reader->done()) {
    RecordReader::Checked checked = reader->check(kSearchUnasked);
    fault = std::move(checked.fault);
    if (what.empty() && !checked.skipped.empty()) what = checked.skipped.front().what;
    if (checked.good != 0) return corrupt(std::move(what));
    if (!fault && interrupted && interrupted()) return os_fault("interrupted", ECANCELED);
  }
  fault.path = path_;
  return fault;
}

Fault AppendFile::read_at(uint64_t offset, std::span<uint8_t> into, size_t& got) const {
  got = 0;
  while (got < into.size()) {
    const ssize_t n =
        ::pread(descriptor_, into.data() + got, into.size() - got, static_cast<off_t>(offset + got));
    if (n == 0) break;
    if (n > 0) {
      got += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      return os_fault("reading", errno);
    }
  }
  return {};
}

Fault AppendFile::remember_end() {
  size_t got = 0;
  return end_ == 0 ? Fault{} : read_at(end_ - kFooterSize, footer_, got);
}

bool AppendFile::end_holds() const {
  uint8_t footer[kFooterSize];
  size_t got = 0;
  return end_ == 0 || (!read_at(end_ - kFooterSize, footer, got) && std::ranges::equal(footer, footer_));
}

void AppendFile::set_end(uint64_t end, int64_t records) noexcept {
  end_ = end;
  records_ = records;
}

Fault AppendFile::os_fault(const char* doing, int error) const {
  Fault fault = Fault::io(std::string(doing) + ": " + std::generic_category().message(error), error);
  fault.path = path_;
  return fault;
}

Fault AppendFile::corrupt(std::string what) const {
  Fault fault = Fault::corrupt(std::move(what));
  fault.path = path_;
  fault.record = records_;
  fault.offset = static_cast<int64_t>(end_);
  return fault;
}

Buffer framed(std::span<const uint8_t> bytes, std::span<const uint64_t> offsets) {
  const size_t records = offsets.size() - 1;
  Buffer frames(static_cast<size_t>(offsets.back() - offsets.front()) + records * kFraming);
  uint8_t* out = frames.data();
  for (size_t i = 0; i < records; ++i) {
    out = write_frame(bytes.subspan(offsets[i], offsets[i + 1] - offsets[i]), out);
  }
  return frames;
}

}  // namespace feedline
