#include "core/source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "core/crc32c.h"

namespace feedline {
namespace {

// zlib counts in 32 bits.
constexpr size_t kMaxCall = size_t{1} << 30;
constexpr uint64_t kInputSize = 256 << 10;
constexpr int kPatience = 100;  // milliseconds

bool is_gzip(std::span<const uint8_t> head) {
  return head.size() >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == Z_DEFLATED;
}

bool is_zlib(std::span<const uint8_t> head) {
  if (head.size() < 2) return false;
  const unsigned method = head[0] & 0x0f, window = head[0] >> 4, preset_dictionary = head[1] & 0x20;
  return method == Z_DEFLATED && window <= 7 && preset_dictionary == 0 && (head[0] << 8 | head[1]) % 31 == 0;
}

bool is_record_header(std::span<const uint8_t> head) {
  if (head.size() < 12) return false;
  uint64_t length;
  uint32_t crc;
  std::memcpy(&length, head.data(), sizeof length);
  std::memcpy(&crc, head.data() + 8, sizeof crc);
  return masked_crc32c_u64(length) == crc;
}

// The length of the first record can look like the two bytes of zlib. When its checksum is damaged, it is
// still told apart by the zeros in its upper half: deflate has no code that is so many zero bits.
bool is_short_length(std::span<const uint8_t> head) {
  if (head.size() < 8) return false;
  uint32_t upper;
  std::memcpy(&upper, head.data() + 4, sizeof upper);
  return upper == 0;
}

Compression detect(std::span<const uint8_t> head) {
  if (is_record_header(head)) return Compression::kNone;
  if (is_gzip(head)) return Compression::kGzip;
  if (is_zlib(head) && !is_short_length(head)) return Compression::kZlib;
  return Compression::kNone;
}

std::string in_hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    if (!text.empty()) text += ' ';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

// The state of zlib between reads. Members of a gzip file that follow each other are one stream, and zeros
// after the last one are padding, as for gzip itself.
class ByteSource::Inflater {
 public:
  Inflater(bool gzip, size_t input_size) : gzip_(gzip), input_(input_size) {
    // 15: the largest window; 16 more: gzip's wrapping instead of zlib's.
    if (inflateInit2(&zlib_, gzip ? 15 + 16 : 15) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&zlib_); }

  Fault read(ByteSource& source, std::span<uint8_t> into, size_t& got) {
    got = 0;
    while (!fault_ && !ended_ && got < into.size()) {
      fault_ = between_ ? next_member(source) : inflate_some(source, into, got);
    }
    return fault_;
  }

  uint64_t padding() const noexcept { return padding_; }

 private:
  const char* name() const { return gzip_ ? "gzip" : "zlib"; }

  Fault refill(ByteSource& source) {
    if (zlib_.avail_in != 0 || at_end_) return {};
    size_t held = 0;
    Fault fault = source.read_stored(input_.bytes(), held);
    at_end_ = held < input_.size();
    if (!fault && at_end_ && source.consumed() < source.file_size()) fault = source.shrunk(source.consumed());
    zlib_.next_in = input_.data();
    zlib_.avail_in = static_cast<uInt>(held);
    return fault;
  }

  Fault corrupt(const ByteSource& source, const std::string& what) const {
    Fault fault = Fault::corrupt(what + " (near byte " + std::to_string(source.consumed() - zlib_.avail_in) +
                                 " of the compressed file)");
    fault.path = source.path();
    return fault;
  }

  Fault inflate_some(ByteSource& source, std::span<uint8_t> into, size_t& got) {
    if (Fault fault = refill(source)) return fault;
    const auto room = static_cast<uInt>(std::min(into.size() - got, kMaxCall));
    zlib_.next_out = into.data() + got;
    zlib_.avail_out = room;
    // Also called without input: zlib may hold back output for which there was no room.
    const int status = inflate(&zlib_, Z_NO_FLUSH);
    got += room - zlib_.avail_out;
    switch (status) {
      case Z_OK:
        return {};
      case Z_STREAM_END:
        between_ = true;
        return {};
      case Z_MEM_ERROR:
        throw std::bad_alloc();
      case Z_BUF_ERROR:
        return corrupt(source, std::string("the ") + name() + " stream ends early");
      default:
        return corrupt(source, std::string("the ") + name() + " stream is damaged: " +
                                   (zlib_.msg != nullptr ? zlib_.msg : zError(status)));
    }
  }

  Fault next_member(ByteSource& source) {
    if (Fault fault = refill(source)) return fault;
    if (zlib_.avail_in == 0) {
      ended_ = true;
      return {};
    }
    if (gzip_ && *zlib_.next_in == 0) {
      ++padding_;
      ++zlib_.next_in;
      --zlib_.avail_in;
      return {};
    }
    if (!gzip_ || padding_ != 0 || *zlib_.next_in != 0x1f) {
      return corrupt(source, std::string("bytes that do not belong to it follow the ") + name() + " stream");
    }
    between_ = false;
    inflateReset(&zlib_);
    return {};
  }

  bool gzip_;
  bool between_ = false;  // a member has ended and the next has not begun
  uint64_t padding_ = 0;  // zeros that were met after a member
  bool at_end_ = false;   // all of the file has been read
  bool ended_ = false;
  Fault fault_;
  Buffer input_;
  z_stream zlib_{};
};

ByteSource::ByteSource(const std::string& path, Interrupted interrupted, FileBudgets budgets)
    : file_(path), interrupted_(std::move(interrupted)), budgets_(std::move(budgets)) {}

ByteSource::~ByteSource() = default;

Fault ByteSource::open(const std::string& path, Compression compression, std::unique_ptr<ByteSource>& out,
                       Interrupted interrupted, FileBudgets budgets) {
  std::unique_ptr<ByteSource> source(new ByteSource(path, std::move(interrupted), std::move(budgets)));
  if (Fault fault = source->start(compression)) return fault;
  out = std::move(source);
  return {};
}

Fault ByteSource::start(Compression compression) {
  DataFile::Loan loan;
  if (Fault fault = borrow(loan)) return fault;
  const bool regular = file_.is_regular();
  if (regular && file_.size() <= kWhole) {
    if (Fault fault = read_whole(loan)) return fault;
  }
  if (compression == Compression::kNone) {
    plain_whole_ = whole_;
    return {};
  }

  size_t got = 0;
  Fault fault = regular ? read_stored_at(0, head_, got) : read_pipe(head_, got);
  if (fault) return fault;
  if (!regular) head_size_ = got;
  const std::span<const uint8_t> head(head_.data(), got);
  if (compression == Compression::kAuto) compression = detect(head);
  if (compression == Compression::kNone || head.empty()) {
    plain_whole_ = whole_;
    return {};
  }

  const bool gzip = compression == Compression::kGzip;
  if (gzip ? !is_gzip(head) : !is_zlib(head)) {
    fault = Fault::corrupt(std::string("not a ") + (gzip ? "gzip" : "zlib") +
                           " stream: the first bytes are " + in_hex(head));
    fault.path = path();
    return fault;
  }
  inflater_ = std::make_unique<Inflater>(gzip, regular ? std::min(kInputSize, file_.size()) : kInputSize);
  compression_ = compression;
  return {};
}

Fault ByteSource::read_whole(DataFile::Loan& loan) {
  auto bytes = std::make_shared<Buffer>(static_cast<size_t>(file_.size()));
  size_t got = 0;
  if (Fault fault = loan.read_at(0, bytes->bytes(), got)) return fault;
  loan.close();
  bytes->resize(got);
  whole_ = std::move(bytes);
  return {};
}

Fault ByteSource::read_stored(std::span<uint8_t> into, size_t& got) {
  if (!file_.is_regular()) return read_pipe(into, got);
  // What was appended since the file was opened is not looked at.
  const uint64_t left = file_.size() - std::min(file_.size(), consumed_);
  Fault fault =
      read_stored_at(consumed_, into.first(static_cast<size_t>(std::min<uint64_t>(into.size(), left))), got);
  consumed_ += got;
  return fault;
}

Fault ByteSource::read_stored_at(uint64_t offset, std::span<uint8_t> into, size_t& got) const {
  got = 0;
  if (into.empty()) return {};
  if (whole_) {
    const std::span<const uint8_t> rest = std::as_const(*whole_).bytes().subspan(
        static_cast<size_t>(std::min<uint64_t>(offset, whole_->size())));
    got = std::min(rest.size(), into.size());
    std::copy_n(rest.begin(), got, into.begin());
    return {};
  }
  DataFile::Loan loan;
  if (Fault fault = borrow(loan)) return fault;
  // Only advice: where it is not taken, reading is slower and nothing else.
  if (loan.is_fresh()) (void)::posix_fadvise(loan.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return loan.read_at(offset, into, got);
}

Fault ByteSource::read_pipe(std::span<uint8_t> into, size_t& got) {
  DataFile::Loan loan;
  if (Fault fault = borrow(loan)) return fault;
  got = std::min(head_size_ - head_at_, into.size());
  std::copy_n(head_.begin() + static_cast<ptrdiff_t>(head_at_), got, into.data());
  head_at_ += got;
  int error = 0;
  while (got < into.size() && error == 0) {
    pollfd waiting{loan.descriptor(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, kPatience);
    if (ready > 0) {
      const ssize_t n = ::read(loan.descriptor(), into.data() + got, std::min(into.size() - got, kMaxCall));
      if (n == 0) break;
      if (n > 0) {
        got += static_cast<size_t>(n);
      } else if (errno != EINTR && errno != EAGAIN) {  // EAGAIN: somebody else was quicker
        error = errno;
      }
    } else if (ready < 0 && errno != EINTR) {
      error = errno;
    } else if (interrupted_ && interrupted_()) {
      error = ECANCELED;
    }
  }
  consumed_ += got;
  return error != 0 ? file_.os_fault("cannot read", error) : Fault{};
}

Fault ByteSource::read(std::span<uint8_t> into, size_t& got) {
  return inflater_ ? inflater_->read(*this, into, got) : read_stored(into, got);
}

Fault ByteSource::skip(uint64_t bytes) {
  uint64_t passed = 0;
  if (file_.is_regular() && !inflater_) {
    passed = consumed_ = std::min(bytes, file_.size());
  } else {
    Buffer unwanted(kInputSize);
    while (passed < bytes) {
      size_t got = 0;
      const size_t wanted = static_cast<size_t>(std::min<uint64_t>(unwanted.size(), bytes - passed));
      if (Fault fault = read(unwanted.bytes().first(wanted), got)) return fault;
      passed += got;
      if (got < wanted) break;
    }
  }
  if (passed == bytes) return {};
  Fault fault = Fault::corrupt("the data ends at byte " + std::to_string(passed) + ", before byte " +
                               std::to_string(bytes) + ", where reading was to go on");
  fault.path = path();
  return fault;
}

Fault ByteSource::read_at(uint64_t offset, std::span<uint8_t> into, size_t& got) const {
  got = 0;
  if (!file_.is_regular() || inflater_) return file_.os_fault("cannot read at an offset", ESPIPE);
  if (offset > static_cast<uint64_t>(INT64_MAX) - into.size())
    return file_.os_fault("cannot read at an offset", EINVAL);
  return read_stored_at(offset, into, got);
}

bool ByteSource::is_being_appended(uint64_t offset, uint64_t end) const noexcept {
  if (!file_.is_regular() || inflater_) return false;
  DataFile::Loan loan;
  if (borrow(loan)) return false;
  // The lock first: when it is free, whoever had it has left the file as it is to be.
  if (::flock(loan.descriptor(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return true;
  } else {
    ::flock(loan.descriptor(), LOCK_UN);
  }
  struct stat now{};
  if (::fstat(loan.descriptor(), &now) != 0) return false;
  const auto size = static_cast<uint64_t>(now.st_size);
  return size == offset || (size > file_.size() && size >= end);
}

uint64_t ByteSource::padding() const noexcept { return inflater_ ? inflater_->padding() : 0; }

std::optional<uint64_t> ByteSource::size() const noexcept {
  if (!file_.is_regular() || inflater_) return std::nullopt;
  return file_.size();
}

}  // namespace feedline
