#include "core/small_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "core/thread_pool.h"

namespace feedline {

struct SmallFiles::Work {
  Work(std::vector<std::string> all, std::shared_ptr<const Schema> schema, const ReadOptions& how)
      : files(std::move(all)), options(how), decoder(std::move(schema), how) {
    result.files.resize(files.size());
  }

  void run() noexcept {
    try {
      decoder.begin(kFirstRows);
      size_t rows = 0;
      for (size_t i = 0; i < files.size(); ++i) {
        const size_t begin = rows;
        if (read(files[i], rows)) result.files[i] = Rows{begin, rows};
      }
      decoder.finish(result.block);
    } catch (const std::bad_alloc&) {
      result.files.assign(files.size(), std::nullopt);
      result.block = {};
    }
  }

 private:
  // Adds the records of a file, and their number to `rows`: also those in front of a fault. False when the
  // file is to be left out.
  bool read(const std::string& path, size_t& rows) {
    // Before it is opened: a pipe would lose what is read to tell its compression.
    struct stat status;
    const auto is_small = [&](uint64_t size) { return size <= options.block_bytes; };
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    if (!is_small(static_cast<uint64_t>(status.st_size))) return false;
    std::unique_ptr<RecordReader> reader;
    if (RecordReader::open(path, options.compression, RecordReader::OnDamage::kStop, reader, {}, {},
                           options.budgets)) {
      return false;
    }
    const std::optional<uint64_t> size = reader->source().size();
    if (!size || !is_small(*size)) return false;
    batch.clear();
    // In one stretch, because a reader that is not fed takes a whole chunk of memory for each file.
    reader->feed(reader->read_stretch(0, static_cast<size_t>(*size)));
    if (reader->next(SIZE_MAX, SIZE_MAX, batch) || !reader->done()) return false;
    // All of them first: so a damaged file adds no rows.
    for (const RecordView& record : batch.records) {
      if (options.verify && !payload_holds(record)) return false;
    }
    DecodedBlock decoded;
    decoder.add(batch, 0, batch.records.size(), decoded);
    rows = decoder.rows();
    return !decoded.fault;
  }

  static constexpr size_t kFirstRows = 256;

  const std::vector<std::string> files;
  const ReadOptions options;
  BlockDecoder decoder;
  RecordBatch batch;

 public:
  Result result;
  std::once_flag once;
  const pid_t owner = getpid();
};

SmallFiles::SmallFiles(std::vector<std::string> files, std::shared_ptr<const Schema> schema,
                       const ReadOptions& options)
    : work_(std::make_shared<Work>(std::move(files), std::move(schema), options)) {
  run_soon([work = work_] { std::call_once(work->once, [&] { work->run(); }); });
}

SmallFiles::~SmallFiles() {
  if (getpid() == work_->owner) std::call_once(work_->once, [] {});
}

SmallFiles::Result SmallFiles::take() {
  if (getpid() != work_->owner) {
    // A forked child lacks the thread that may have begun.
    Result none;
    none.files.resize(work_->result.files.size());
    return none;
  }
  std::call_once(work_->once, [this] { work_->run(); });
  return std::move(work_->result);
}

}  // namespace feedline
