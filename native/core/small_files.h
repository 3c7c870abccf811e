// Several small files, each read whole, and decoded together into one block by a thread of the pool.
//
// A pipeline that goes through very many files by turns spends more on a reader for each than on its records.
// Only sound, plain, regular files are read here, and closed at once. A file that is large, compressed,
// damaged or missing is left out: a BlockReader says in its place what is wrong with it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/block_reader.h"

namespace feedline {

class SmallFiles {
 public:
  struct Rows {
    size_t begin;
    size_t end;
  };
  struct Result {
    DecodedBlock block;  // without faults; of a file with a record that does not fit, some rows may be left
    std::vector<std::optional<Rows>> files;  // the rows of each file, unless it was left out
  };

  // Files of more than `options.block_bytes` are left out. Throws std::bad_alloc.
  SmallFiles(std::vector<std::string> files, std::shared_ptr<const Schema> schema,
             const ReadOptions& options);

  // Waits for a thread that is reading. What nobody has begun is left out.
  ~SmallFiles();
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

  // The result, once. If no thread has begun to read, the caller does it.
  Result take();

 private:
  struct Work;
  std::shared_ptr<Work> work_;
};

}  // namespace feedline
