// The records of several files by turns -> blocks of decoded rows, by the caller and the threads of the pool.
//
// One thread at a time finds the records of a block, in their order over all files; then it decodes them
// while another finds the next. The reader ends in front of the first record that it cannot give: where a
// file ends, is damaged, or does not fit the schema. A BlockReader for each file goes on from there.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/block_reader.h"

namespace feedline {

class TurnReader {
 public:
  // Where to begin in a file, and how many records to pass over there.
  struct Entry {
    std::string path;
    Start start;
    uint64_t drop = 0;
  };

  // Each turn gives `turn` records of a file. `options.rows` is rounded to whole rounds of all files.
  TurnReader(std::vector<Entry> files, std::shared_ptr<const Schema> schema, const ReadOptions& options,
             size_t turn);
  ~TurnReader();
  TurnReader(const TurnReader&) = delete;
  TurnReader& operator=(const TurnReader&) = delete;

  struct Block {
    DecodedBlock decoded;
    std::vector<Start> places;  // where each file goes on after these rows
  };
  // As BlockReader's. All blocks but the last have whole rounds, and none has a fault.
  BlockReader::Outcome next(std::chrono::milliseconds patience, Block& out);

 private:
  struct Work;
  std::shared_ptr<Work> work_;
};

}  // namespace feedline
