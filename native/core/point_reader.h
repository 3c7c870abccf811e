// Single records of plain files, wherever they lie, decoded into a block in the order asked for.
//
// Places come from an index, so from a file: each is compared with the record's own header before it is
// believed.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/block_reader.h"

namespace feedline {

struct RecordPlace {
  size_t file;
  uint64_t offset;  // of the header
  uint64_t size;    // of the payload
  int64_t number;   // in its file, for messages
};

class PointReader {
 public:
  PointReader(std::vector<std::string> files, std::shared_ptr<const Schema> schema, bool verify);

  // Rows up to the first that is not what the index says; that is the block's fault. Files that are opened
  // for it count against the budgets.
  DecodedBlock read(std::span<const RecordPlace> places, const FileBudgets& budgets = {},
                    const Interrupted& interrupted = {});

 private:
  Fault read_one(const RecordPlace& place, const FileBudgets& budgets, const Interrupted& interrupted);
  DataFile& file_at(size_t number);

  const std::vector<std::string> files_;
  const bool verify_;
  std::mutex mutex_;  // for all below
  ExampleDecoder decoder_;
  Buffer record_;
  // The files read last, the most recent first. Whether they are open is up to the pool.
  struct Known {
    Known(size_t at, const std::string& path) : number(at), file(path) {}
    size_t number;
    DataFile file;
  };
  std::list<Known> known_;
  std::unordered_map<size_t, std::list<Known>::iterator> by_number_;
};

}  // namespace feedline
