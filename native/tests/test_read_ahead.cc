#include <string>

#include "core/read_ahead.h"
#include "tests/check.h"
#include "tests/id_files.h"

namespace feedline {
namespace {

using namespace samples;
using Outcome = BlockReader::Outcome;
using std::chrono::milliseconds;

ReadOptions seven_rows() {
  ReadOptions options;
  options.rows = 7;
  return options;
}

Outcome wait_for(ReadAhead& reader, DecodedBlock& block) {
  Outcome outcome = Outcome::kWaiting;
  while (outcome == Outcome::kWaiting) outcome = reader.next(milliseconds(50), block);
  return outcome;
}

TEST(many_readers_by_turns_each_give_their_rows_in_order) {
  std::vector<File> files;
  std::vector<std::unique_ptr<ReadAhead>> readers;
  for (int64_t i = 0; i < 40; ++i) {
    files.emplace_back(rows(i * 1000, 100));
    readers.push_back(
        std::make_unique<ReadAhead>(std::vector{files.back().path()}, schema_of_ids(), seven_rows()));
  }
  for (int64_t at = 0; at < 100; at += 7) {
    for (int64_t i = 0; i < 40; ++i) {
      DecodedBlock block;
      CHECK_EQ(wait_for(*readers[static_cast<size_t>(i)], block), Outcome::kBlock);
      CHECK_EQ(block.rows, static_cast<size_t>(std::min<int64_t>(7, 100 - at)));
      CHECK_EQ(block.columns[0].data.as<int64_t>()[0], i * 1000 + at);
    }
  }
  for (auto& reader : readers) {
    DecodedBlock block;
    CHECK_EQ(wait_for(*reader, block), Outcome::kEnd);
    CHECK_EQ(wait_for(*reader, block), Outcome::kEnd);
  }
}

TEST(a_reader_may_be_destroyed_at_any_moment) {
  const File file(rows(0, 5000));
  for (int turn = 0; turn < 300; ++turn) {
    ReadAhead reader({file.path()}, schema_of_ids(), seven_rows());
    DecodedBlock block;
    for (int taken = 0; taken < turn % 4; ++taken) CHECK_EQ(wait_for(reader, block), Outcome::kBlock);
  }
}

TEST(a_fault_comes_after_the_rows_in_front_of_it) {
  Bytes bytes = rows(0, 10);
  const size_t sound = bytes.size();
  bytes += rows(10, 5);
  bytes[sound + 3] ^= 1;
  const File file(bytes);
  ReadAhead reader({file.path()}, schema_of_ids(), seven_rows());
  DecodedBlock block;
  CHECK_EQ(wait_for(reader, block), Outcome::kBlock);
  CHECK_EQ(wait_for(reader, block), Outcome::kBlock);
  CHECK_EQ(block.rows, 3);
  CHECK_EQ(block.fault.record, 10);
  CHECK_EQ(wait_for(reader, block), Outcome::kEnd);
}

}  // namespace
}  // namespace feedline
