// Any file, read as plain, gzip or zlib in pieces of any size: no crash, no hang, and what the source says of
// itself holds. The first byte of the input chooses the compression, the second the size of the pieces.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/source.h"

namespace feedline {
namespace {

constexpr size_t kMaxOutput = 16 << 20;  // deflate makes a thousand bytes of one

void require(bool law) {
  if (!law) std::abort();
}

// One file for all runs: making one costs more than a run.
int file_of(const uint8_t* data, size_t size) {
  static const int file = ::memfd_create("feedline-fuzz", MFD_CLOEXEC);
  require(::ftruncate(file, 0) == 0);
  require(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  return file;
}

void read_all(ByteSource& source, size_t seed) {
  std::array<uint8_t, 4096> piece;
  size_t total = 0;
  size_t wanted = 1;
  size_t got = wanted;
  Fault fault;
  while (!fault && got == wanted && total < kMaxOutput) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    wanted = 1 + (seed >> 33) % (seed >> 63 != 0 ? piece.size() : 16);
    fault = source.read(std::span(piece).first(wanted), got);
    require(got <= wanted);
    total += got;
  }
  if (total >= kMaxOutput) return;
  const Fault again = source.read(std::span(piece).first(1), got);
  require(got == 0 && again.kind == fault.kind);
  require(!fault || (fault.kind == FaultKind::kCorrupt && source.compressed() && !fault.what.empty()));
  require(fault || source.consumed() == source.file_size());
  require(!source.size() || *source.size() == total);
}

}  // namespace
}  // namespace feedline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace feedline;
  if (size < 2) return 0;
  const std::string path = "/proc/self/fd/" + std::to_string(file_of(data + 2, size - 2));
  std::unique_ptr<ByteSource> source;
  const Fault fault = ByteSource::open(path, static_cast<Compression>(data[0] % 4), source);
  require(static_cast<bool>(fault) == (source == nullptr));
  require(!fault || (fault.kind == FaultKind::kCorrupt && fault.path == path));
  if (source) read_all(*source, data[1]);
  return 0;
}
