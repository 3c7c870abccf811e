// A BlockReader of one thread whose next blocks are made ahead, by threads that all readers share.
//
// For many files that are read by turns: each has blocks ready or under way, with the same few threads
// whatever the number of files. Whoever asks for a block that nobody has begun makes it himself.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/block_reader.h"

namespace feedline {

class ReadAhead {
 public:
  ReadAhead(std::vector<std::string> files, std::shared_ptr<const Schema> schema, ReadOptions options);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // As BlockReader's.
  BlockReader::Outcome next(std::chrono::milliseconds patience, DecodedBlock& out);

 private:
  struct Work;
  std::shared_ptr<Work> work_;
};

}  // namespace feedline
