// Any file through RecordReader, both ways of meeting damage: what is delivered lies in the file where it
// says, in order, and does not depend on the size of the batches.
//
// Random bytes never hold a checksum, so the input is a recipe: the first byte chooses compression and
// limits, then each byte says what comes next in the file: a record, a header that may lie, or the input's
// own bytes.
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/framing.h"
#include "core/record_reader.h"

namespace feedline {
namespace {

using Bytes = std::vector<uint8_t>;
using OnDamage = RecordReader::OnDamage;

constexpr size_t kChunk = 256 << 10;
constexpr size_t kMaxFile = 600 << 10;

void require(bool law) {
  if (!law) std::abort();
}

class Recipe {
 public:
  explicit Recipe(std::span<const uint8_t> input) : rest_(input) {}
  bool done() const { return rest_.empty(); }
  std::span<const uint8_t> take(size_t size) {
    const auto part = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(part.size());
    return part;
  }
  uint8_t byte() {
    const auto part = take(1);
    return part.empty() ? 0 : part[0];
  }

 private:
  std::span<const uint8_t> rest_;
};

void append(Bytes& file, std::span<const uint8_t> bytes) {
  file.insert(file.end(), bytes.begin(), bytes.end());
}

void append_record(Bytes& file, const Bytes& payload) {
  const size_t at = file.size();
  file.resize(at + kHeaderSize + payload.size() + kFooterSize);
  std::copy(payload.begin(), payload.end(), file.begin() + static_cast<ptrdiff_t>(at + kHeaderSize));
  write_frame_around(payload, &file[at], &file[file.size() - kFooterSize]);
}

void append_header(Bytes& file, uint64_t length) {
  const uint32_t crc = masked_crc32c_u64(length);
  append(file, {reinterpret_cast<const uint8_t*>(&length), sizeof length});
  append(file, {reinterpret_cast<const uint8_t*>(&crc), sizeof crc});
}

// `far`: behind a record that is about as long as a chunk of the reader's, so that what follows lies over the
// border. Only then, because passing over so many damaged bytes is slow.
Bytes cook(Recipe& recipe, bool far) {
  Bytes file;
  if (far) append_record(file, Bytes(kChunk - 2 * recipe.byte()));
  while (!recipe.done() && file.size() < kMaxFile) {
    const uint8_t step = recipe.byte();
    const size_t size = step >> 3;
    switch (step & 7) {
      case 0:
      case 1: {
        const auto payload = recipe.take(size);
        append_record(file, Bytes(payload.begin(), payload.end()));
        break;
      }
      case 2:
        append_record(file, Bytes(size << 4, recipe.byte()));
        break;
      case 3:
        append_header(file, size);
        break;
      case 4:
        append_header(file, uint64_t{1} << (size * 2 + 1) | recipe.byte());
        break;
      case 5:  // what was there is torn
        file.resize(file.size() - std::min(size, file.size()));
        break;
      case 6:
        append(file, recipe.take(size + 1));
        break;
      default:
        file.insert(file.end(), size << 4, recipe.byte());
        break;
    }
  }
  return file;
}

Bytes gzipped(const Bytes& bytes) {
  z_stream zlib{};
  require(deflateInit2(&zlib, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes out(deflateBound(&zlib, static_cast<uLong>(bytes.size())) + 64);
  zlib.next_in = const_cast<Bytef*>(bytes.data());
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = out.data();
  zlib.avail_out = static_cast<uInt>(out.size());
  require(deflate(&zlib, Z_FINISH) == Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

// One file for all runs: making one costs more than a run.
std::string path_of(const Bytes& bytes) {
  static const int file = ::memfd_create("feedline-fuzz", MFD_CLOEXEC);
  require(::ftruncate(file, 0) == 0);
  require(::pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return "/proc/self/fd/" + std::to_string(file);
}

struct Found {
  struct Record {
    uint64_t offset;
    uint64_t size;
    int64_t number;
    bool holds;
    uint64_t end() const { return offset + kHeaderSize + size + kFooterSize; }
    bool operator==(const Record&) const = default;
  };
  std::vector<Record> records;
  size_t skipped = 0;
  Fault fault;
};

// Reads all, and compares each record with the bytes that the file has there.
Found read(const std::string& path, const Bytes& file, OnDamage on_damage, size_t max_records,
           size_t max_bytes) {
  Found found;
  std::unique_ptr<RecordReader> reader;
  found.fault = RecordReader::open(path, Compression::kAuto, on_damage, reader);
  require(static_cast<bool>(found.fault) == (reader == nullptr));
  RecordBatch batch;
  while (reader && !reader->done() && !found.fault) {
    batch.clear();
    found.fault = reader->next(max_records, max_bytes, batch);
    require(batch.records.size() <= max_records);
    require(reader->done() || !batch.records.empty());
    require(!found.fault || reader->done());
    for (size_t i = 0; i < batch.records.size(); ++i) {
      const RecordView& view = batch.records[i];
      require(view.offset <= file.size() && file.size() - view.offset >= kHeaderSize + kFooterSize);
      require(view.size <= file.size() - view.offset - kHeaderSize - kFooterSize);
      const uint8_t* const at = file.data() + view.offset;
      require(header_holds(at) && header_length(at) == view.size);
      require(std::memcmp(at + kHeaderSize, view.data, view.size + kFooterSize) == 0);
      found.records.push_back({view.offset, view.size, view.number, payload_holds(view)});
      require(batch.path_of(i) == path);
    }
    found.skipped += batch.skipped.size();
    for (const Fault& note : batch.skipped) {
      require(note.kind == FaultKind::kCorrupt && note.path == path && note.record >= 0);
      require(note.offset >= 0 && static_cast<uint64_t>(note.offset) <= file.size());
    }
  }
  if (found.fault) {
    require(found.fault.kind == FaultKind::kCorrupt && found.fault.path == path && !found.fault.what.empty());
  }
  return found;
}

// The records lie end to end from the beginning, up to the fault or the end of the file.
void check_stopped(const Found& found, const Bytes& file, bool cut) {
  uint64_t end = 0;
  for (size_t i = 0; i < found.records.size(); ++i) {
    require(found.records[i].offset == end && found.records[i].number == static_cast<int64_t>(i));
    end = found.records[i].end();
  }
  require(found.skipped == 0);
  require(found.fault || end == file.size() || cut);
  if (found.fault && found.fault.record >= 0) {
    require(found.fault.record == static_cast<int64_t>(found.records.size()));
    require(static_cast<uint64_t>(found.fault.offset) == end);
  }
}

// The records hold, and lie in order and apart. What is in front of the first damage is what the other way of
// reading gives.
void check_passed(const Found& found, const Found& stopped) {
  uint64_t end = 0;
  for (size_t i = 0; i < found.records.size(); ++i) {
    const Found::Record& record = found.records[i];
    require(record.holds);
    require(i == 0 || record.number > found.records[i - 1].number);
    require(record.offset >= end);
    end = record.end();
  }
  const auto damaged = std::find_if(stopped.records.begin(), stopped.records.end(),
                                    [](const Found::Record& record) { return !record.holds; });
  const auto whole = static_cast<size_t>(damaged - stopped.records.begin());
  require(found.records.size() >= whole);
  require(std::equal(stopped.records.begin(), damaged, found.records.begin()));
  const bool sound = !stopped.fault && damaged == stopped.records.end();
  require(sound ? found.skipped == 0 : found.skipped != 0 || found.fault);
}

}  // namespace
}  // namespace feedline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace feedline;
  if (size == 0) return 0;
  const uint8_t how = data[0];
  Recipe recipe(std::span(data, size).subspan(1));
  const bool gzip = (how & 3) == 3;
  const size_t missing = gzip && (how & 4) != 0 ? recipe.byte() : 0;
  const size_t max_records = 1 + (how >> 3 & 3);
  const size_t max_bytes = 1 + (how >> 5) * 20;
  const Bytes file = cook(recipe, how >= 0xf8);
  Bytes stored = gzip ? gzipped(file) : file;
  stored.resize(stored.size() - std::min(missing, stored.size()));

  const std::string path = path_of(stored);
  // A plain file may look like a compressed one. What is in that is not known here.
  std::unique_ptr<ByteSource> source;
  if (ByteSource::open(path, Compression::kAuto, source) || source->compressed() != gzip) return 0;

  const Found stopped = read(path, file, OnDamage::kStop, max_records, max_bytes);
  check_stopped(stopped, file, missing != 0);
  const Found passed = read(path, file, OnDamage::kResync, max_records, max_bytes);
  check_passed(passed, stopped);
  const Found at_once = read(path, file, OnDamage::kResync, 1000, SIZE_MAX);
  require(at_once.records == passed.records && at_once.skipped == passed.skipped);
  return 0;
}
