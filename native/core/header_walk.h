// Where the records of plain files lie, found by their headers alone: payloads that are larger than a read
// are passed over. Several files at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace feedline {

// What changes when a file does.
struct FileIdentity {
  uint64_t size = 0;
  uint64_t modified = 0;  // mtime and ctime in nanoseconds
  uint64_t changed = 0;
  uint64_t inode = 0;
  uint64_t ends = 0;  // CRC32C of the first and the last kIdentityProbe bytes
};

inline constexpr size_t kIdentityProbe = 4096;

struct WalkedFile {
  // False for what is not a plain regular file with sound headers from end to end, and for one that changed
  // meanwhile. Read it with a RecordReader to learn why.
  bool sound = false;
  FileIdentity identity;
  std::vector<uint64_t> offsets;  // of each record's header, and the end of the last record
};

// Walks all files, by threads of its own. `tick` is called on the caller's thread, ten times a second, with
// the number of file bytes that were passed; false stops the walk, and the rest is not sound.
std::vector<WalkedFile> walk_headers(const std::vector<std::string>& paths,
                                     const std::function<bool(uint64_t)>& tick);

}  // namespace feedline
