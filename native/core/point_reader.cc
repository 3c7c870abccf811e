#include "core/point_reader.h"

#include <cerrno>

#include "core/framing.h"

namespace feedline {

namespace {

// At least as many as are open by default; more only cost memory.
constexpr size_t kMostKnown = 1024;

}  // namespace

PointReader::PointReader(std::vector<std::string> files, std::shared_ptr<const Schema> schema, bool verify)
    : files_(std::move(files)), verify_(verify), decoder_(std::move(schema)) {}

DecodedBlock PointReader::read(std::span<const RecordPlace> places, const FileBudgets& budgets,
                               const Interrupted& interrupted) {
  std::lock_guard lock(mutex_);
  DecodedBlock block;
  decoder_.begin(places.size());
  for (const RecordPlace& place : places) {
    block.fault = read_one(place, budgets, interrupted);
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

Fault PointReader::read_one(const RecordPlace& place, const FileBudgets& budgets,
                            const Interrupted& interrupted) {
  if (place.file >= files_.size()) return Fault::io("there is no file " + std::to_string(place.file), EINVAL);
  DataFile& file = file_at(place.file);
  DataFile::Loan loan;
  if (Fault fault = file.borrow(budgets, interrupted, loan)) return fault;
  const auto stale = [&] {
    return Fault::corrupt("the index says that a record of " + std::to_string(place.size) +
                          " bytes begins here, and there is none");
  };
  // Before anything is allocated for a size that may be a lie.
  const uint64_t file_size = file.size();
  if (place.offset > file_size || file_size - place.offset < kFraming ||
      place.size > file_size - place.offset - kFraming) {
    return stale();
  }
  record_.resize(kFraming + static_cast<size_t>(place.size));
  size_t got = 0;
  if (Fault fault = loan.read_at(place.offset, record_.bytes(), got)) return fault;
  if (got < record_.size()) return file.shrunk(place.offset + got);
  if (!header_holds(record_.data()) || header_length(record_.data()) != place.size) return stale();
  const RecordView record{record_.data() + kHeaderSize, place.size, place.offset, place.number};
  if (verify_ && !payload_holds(record)) return payload_fault(record);
  return decoder_.add(record.payload()) ? Fault{} : std::move(decoder_.fault());
}

DataFile& PointReader::file_at(size_t number) {
  if (const auto found = by_number_.find(number); found != by_number_.end()) {
    known_.splice(known_.begin(), known_, found->second);
  } else {
    if (known_.size() == kMostKnown) {
      by_number_.erase(known_.back().number);
      known_.pop_back();
    }
    known_.emplace_front(number, files_[number]);
    by_number_[number] = known_.begin();
  }
  return known_.front().file;
}

}  // namespace feedline
