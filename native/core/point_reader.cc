#include "core/point_reader.h"

#include "core/framing.h"

namespace feedline {

namespace {

// Few enough for any limit on open files.
constexpr size_t kMaxOpen = 32;

}  // namespace

PointReader::PointReader(std::vector<std::string> files, std::shared_ptr<const Schema> schema, bool verify)
    : files_(std::move(files)), verify_(verify), decoder_(std::move(schema)) {}

DecodedBlock PointReader::read(std::span<const RecordPlace> places) {
  std::lock_guard lock(mutex_);
  DecodedBlock block;
  decoder_.begin(places.size());
  for (const RecordPlace& place : places) {
    block.fault = read_one(place);
    if (!block.fault) continue;
    if (place.file < files_.size()) block.fault.path = files_[place.file];
    if (block.fault.kind != FaultKind::kIo) {
      block.fault.record = place.number;
      block.fault.offset = static_cast<int64_t>(place.offset);
    }
    break;
  }
  block.rows = decoder_.rows();
  block.columns = decoder_.finish();
  return block;
}

Fault PointReader::read_one(const RecordPlace& place) {
  std::shared_ptr<ByteSource> source;
  if (Fault fault = source_of(place.file, source)) return fault;
  const Fault stale = Fault::corrupt("the index says that a record of " + std::to_string(place.size) +
                                     " bytes begins here, and there is none");
  // Before anything is allocated for a size that may be a lie.
  const uint64_t file_size = source->size().value_or(0);
  if (place.offset > file_size || file_size - place.offset < kFraming ||
      place.size > file_size - place.offset - kFraming) {
    return stale;
  }
  record_.resize(kFraming + static_cast<size_t>(place.size));
  size_t got = 0;
  if (Fault fault = source->read_at(place.offset, record_.bytes(), got)) return fault;
  if (got < record_.size() || !header_holds(record_.data()) || header_length(record_.data()) != place.size)
    return stale;
  const RecordView record{record_.data() + kHeaderSize, place.size, place.offset, place.number};
  if (verify_ && !payload_holds(record)) return payload_fault(record);
  return decoder_.add(record.payload()) ? Fault{} : std::move(decoder_.fault());
}

Fault PointReader::source_of(size_t file, std::shared_ptr<ByteSource>& out) {
  if (const auto known = open_by_file_.find(file); known != open_by_file_.end()) {
    open_.splice(open_.begin(), open_, known->second);
    out = known->second->source;
    return {};
  }
  if (file >= files_.size()) return Fault::io("there is no file " + std::to_string(file), EINVAL);
  std::unique_ptr<ByteSource> source;
  if (Fault fault = ByteSource::open(files_[file], Compression::kNone, source)) return fault;
  out = std::move(source);
  if (open_.size() == kMaxOpen) {
    open_by_file_.erase(open_.back().file);
    open_.pop_back();
  }
  open_.push_front({file, out});
  open_by_file_[file] = open_.begin();
  return {};
}

}  // namespace feedline
