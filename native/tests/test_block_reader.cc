#include <algorithm>
#include <cerrno>
#include <string>

#include "core/block_reader.h"
#include "tests/check.h"
#include "tests/samples.h"

namespace feedline {
namespace {

using namespace samples;
using Outcome = BlockReader::Outcome;
using std::chrono::milliseconds;

// Row `n` has the number itself, n % 5 floats, n % 3 strings, and what nobody asked for.
Bytes row(int64_t n, size_t unwanted = 0) {
  Bytes floats_of_row, strings_of_row;
  for (int64_t i = 0; i < n % 5; ++i) floats_of_row += memory({static_cast<float>(n + i)});
  for (int64_t i = 0; i < n % 3; ++i) strings_of_row += field(1, text(std::to_string(n * i)));
  return example(entry("id", ints({n})) + entry("f", float_list(field(1, floats_of_row))) +
                 entry("s", bytes_list(strings_of_row)) + entry("unwanted", Bytes(unwanted)));
}

std::shared_ptr<const Schema> row_schema() {
  auto schema = std::make_shared<Schema>();
  Feature id;
  id.name = id.key = "id";
  id.item_size = sizeof(int64_t);
  Feature of_floats;
  of_floats.name = of_floats.key = "f";
  of_floats.layout = Layout::kVarLen;
  of_floats.kind = ValueKind::kFloat;
  of_floats.required = false;
  of_floats.item_size = sizeof(float);
  Feature of_strings = of_floats;
  of_strings.name = of_strings.key = "s";
  of_strings.kind = ValueKind::kBytes;
  of_strings.item_size = 0;
  schema->features = {id, of_floats, of_strings};
  return schema;
}

// Files of rows that count on from file to file, kept open.
struct Files {
  void add(const Bytes& bytes) { files.emplace_back(bytes); }
  void add_rows(size_t rows, bool gzip = false) {
    Bytes bytes;
    for (size_t i = 0; i < rows; ++i) bytes += framed(row(next++));
    add(gzip ? gzipped(bytes) : bytes);
  }
  std::vector<std::string> paths() const {
    std::vector<std::string> all;
    for (const File& file : files) all.push_back(file.path());
    return all;
  }

  std::vector<File> files;
  int64_t next = 0;
};

ReadOptions options(size_t rows, size_t threads, bool skip = false) {
  ReadOptions made;
  made.rows = rows;
  made.threads = threads;
  made.skip = skip;
  return made;
}

Outcome wait_for(BlockReader& reader, DecodedBlock& block) {
  Outcome outcome = Outcome::kWaiting;
  while (outcome == Outcome::kWaiting) outcome = reader.next(milliseconds(50), block);
  return outcome;
}

std::vector<DecodedBlock> read_all(const std::vector<std::string>& files, const ReadOptions& how,
                                   std::shared_ptr<const Schema> schema = row_schema()) {
  BlockReader reader(files, std::move(schema), how);
  std::vector<DecodedBlock> blocks;
  DecodedBlock block;
  while (wait_for(reader, block) == Outcome::kBlock) blocks.push_back(std::move(block));
  // The end stays the end.
  CHECK_EQ(wait_for(reader, block), Outcome::kEnd);
  CHECK_EQ(wait_for(reader, block), Outcome::kEnd);
  for (size_t i = 0; i + 1 < blocks.size(); ++i) CHECK(!blocks[i].fault);
  return blocks;
}

std::vector<int64_t> ids(const std::vector<DecodedBlock>& blocks) {
  std::vector<int64_t> all;
  for (const DecodedBlock& block : blocks) {
    CHECK_EQ(block.columns.at(0).data.size(), block.rows * sizeof(int64_t));
    const auto* first = block.columns[0].data.as<int64_t>();
    all.insert(all.end(), first, first + block.rows);
  }
  return all;
}

std::vector<int64_t> count_to(int64_t end, int64_t begin = 0) {
  std::vector<int64_t> all;
  for (int64_t n = begin; n < end; ++n) all.push_back(n);
  return all;
}

bool same(const Fault& a, const Fault& b) {
  return a.kind == b.kind && a.what == b.what && a.path == b.path && a.record == b.record &&
         a.offset == b.offset && a.feature == b.feature;
}

bool same(const DecodedBlock& a, const DecodedBlock& b) {
  if (a.rows != b.rows || a.columns.size() != b.columns.size() || !same(a.fault, b.fault)) return false;
  for (size_t i = 0; i < a.columns.size(); ++i) {
    for (auto part : {&Column::data, &Column::strings, &Column::rows}) {
      const auto x = (a.columns[i].*part).bytes(), y = (b.columns[i].*part).bytes();
      if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
    }
  }
  return std::equal(a.skipped.begin(), a.skipped.end(), b.skipped.begin(), b.skipped.end(),
                    [](const Fault& x, const Fault& y) { return same(x, y); });
}

// Reads with 1, 2, 3 and 7 threads; the blocks must be the same, and are given for more checks.
std::vector<DecodedBlock> read_by_all(const Files& files, size_t rows, bool skip = false) {
  const auto paths = files.paths();
  std::vector<DecodedBlock> alone = read_all(paths, options(rows, 1, skip));
  for (size_t threads : {2, 3, 7}) {
    const std::vector<DecodedBlock> together = read_all(paths, options(rows, threads, skip));
    CHECK(std::equal(alone.begin(), alone.end(), together.begin(), together.end(),
                     [](const DecodedBlock& a, const DecodedBlock& b) { return same(a, b); }));
  }
  return alone;
}

constexpr size_t kRowCounts[] = {1, 7, 256};

TEST(blocks_are_the_same_for_any_number_of_threads) {
  Files files;
  files.add_rows(500);
  files.add_rows(0);
  files.add_rows(300, /*gzip=*/true);
  files.add_rows(1);
  for (size_t rows : kRowCounts) {
    const auto blocks = read_by_all(files, rows);
    CHECK(ids(blocks) == count_to(801));
    for (size_t i = 0; i + 1 < blocks.size(); ++i) CHECK_EQ(blocks[i].rows, rows);
    CHECK_EQ(blocks.size(), (801 + rows - 1) / rows);
    CHECK(blocks.back().skipped.empty() && !blocks.back().fault);
  }
}

TEST(rows_are_whole_in_every_column) {
  Files files;
  files.add_rows(100);
  const auto blocks = read_all(files.paths(), options(100, 3));
  if (!CHECK_EQ(blocks.size(), 1)) return;
  const Column &f = blocks[0].columns[1], &s = blocks[0].columns[2];
  for (size_t n = 0; n < 100; ++n) {
    const int64_t* const floats_of = f.rows.as<int64_t>() + n;
    const int64_t* const strings_of = s.rows.as<int64_t>() + n;
    CHECK_EQ(floats_of[1] - floats_of[0], n % 5);
    if (n % 5 != 0) CHECK_EQ(f.data.as<float>()[floats_of[0]], static_cast<float>(n));
    CHECK_EQ(strings_of[1] - strings_of[0], n % 3);
    if (n % 3 == 2) {
      const int64_t* const ends = s.strings.as<int64_t>() + strings_of[0] + 1;
      CHECK_EQ(std::string(s.data.as<char>() + ends[0], s.data.as<char>() + ends[1]), std::to_string(n));
    }
  }
}

TEST(many_small_files_fill_blocks_together) {
  Files files;
  for (size_t i = 0; i < 150; ++i) files.add_rows(i % 4, i % 7 == 0);
  for (size_t rows : kRowCounts) {
    const auto blocks = read_by_all(files, rows);
    CHECK(ids(blocks) == count_to(files.next));
    CHECK_EQ(blocks.size(), (static_cast<size_t>(files.next) + rows - 1) / rows);
  }
}

TEST(no_files_and_empty_files_end_at_once) {
  Files files;
  for (size_t threads : {0, 1, 3}) CHECK(read_all({}, options(7, threads)).empty());
  files.add({});
  files.add({});
  CHECK(read_by_all(files, 7).empty());
}

TEST(a_file_may_be_read_twice) {
  Files files;
  files.add_rows(10);
  auto paths = files.paths();
  paths.push_back(paths[0]);
  auto expected = count_to(10);
  expected.insert(expected.end(), expected.begin(), expected.begin() + 10);
  CHECK(ids(read_all(paths, options(7, 2))) == expected);
}

// 100 rows, then `middle` as the record 100 of the second file, then 50 rows more, then a third file.
struct Damaged {
  explicit Damaged(const Bytes& middle) {
    files.add_rows(100);
    Bytes second;
    for (int i = 0; i < 100; ++i) second += framed(row(files.next++));
    offset = static_cast<int64_t>(second.size());
    second += middle;
    for (int i = 0; i < 50; ++i) second += framed(row(files.next++));
    files.add(second);
    files.add_rows(30);
  }
  // Rows up to the damage, then the fault, whatever the number of threads.
  void check_stops(FaultKind kind, std::string_view what) const {
    for (size_t rows : kRowCounts) {
      const auto blocks = read_by_all(files, rows);
      CHECK(ids(blocks) == count_to(200));
      if (!CHECK(!blocks.empty())) return;
      const Fault& fault = blocks.back().fault;
      CHECK_EQ(fault.kind, kind);
      CHECK_EQ(fault.path, files.paths()[1]);
      CHECK_EQ(fault.record, 100);
      CHECK_EQ(fault.offset, offset);
      CHECK(fault.what.find(what) != std::string::npos);
    }
  }
  // All rows but the damaged one, and one note.
  void check_skips() const {
    for (size_t rows : kRowCounts) {
      const auto blocks = read_by_all(files, rows, /*skip=*/true);
      CHECK(ids(blocks) == count_to(280));
      std::vector<Fault> notes;
      for (const DecodedBlock& block : blocks) {
        CHECK(!block.fault);
        CHECK(block.rows <= rows);
        notes.insert(notes.end(), block.skipped.begin(), block.skipped.end());
      }
      if (!CHECK_EQ(notes.size(), 1)) return;
      CHECK_EQ(notes[0].kind, FaultKind::kCorrupt);
      CHECK_EQ(notes[0].path, files.paths()[1]);
      CHECK_EQ(notes[0].record, 100);
      CHECK_EQ(notes[0].offset, offset);
    }
  }

  Files files;
  int64_t offset = 0;
};

Bytes with_flipped_bit(Bytes frame, size_t byte) {
  frame[byte] ^= 0x10;
  return frame;
}

TEST(a_damaged_header_comes_after_the_rows_in_front_of_it) {
  const Damaged damaged(with_flipped_bit(framed(row(7)), 2));
  damaged.check_stops(FaultKind::kCorrupt, "header checksum 0x");
  damaged.check_skips();
}

TEST(a_damaged_payload_comes_after_the_rows_in_front_of_it) {
  const Damaged damaged(with_flipped_bit(framed(row(7)), 20));
  damaged.check_stops(FaultKind::kCorrupt, "payload checksum 0x");
  damaged.check_skips();
}

TEST(a_malformed_message_comes_after_the_rows_in_front_of_it) {
  const Damaged damaged(framed(row(7) + Bytes{0x07}));
  damaged.check_stops(FaultKind::kCorrupt, "malformed");
  damaged.check_skips();
}

TEST(a_row_that_does_not_fit_the_schema_ends_the_data_also_when_damage_is_skipped) {
  const Damaged damaged(framed(example(entry("id", floats({1})))));
  damaged.check_stops(FaultKind::kSchema, "holds float32 values");
  for (size_t threads : {1, 3}) {
    const auto blocks = read_all(damaged.files.paths(), options(7, threads, /*skip=*/true));
    CHECK(ids(blocks) == count_to(200));
    CHECK_EQ(blocks.back().fault.kind, FaultKind::kSchema);
    CHECK_EQ(blocks.back().fault.feature, "id");
  }
}

TEST(checksums_of_payloads_are_not_looked_at_unless_asked) {
  Files files;
  Bytes frame = framed(row(3));
  frame.back() ^= 1;
  files.add(frame);
  ReadOptions how = options(7, 1);
  CHECK(ids(read_all(files.paths(), how)).empty());
  how.verify = false;
  CHECK(ids(read_all(files.paths(), how)) == std::vector<int64_t>({3}));
}

TEST(a_missing_file_comes_after_the_rows_in_front_of_it) {
  for (bool skip : {false, true}) {
    for (size_t threads : {1, 2, 7}) {
      Files files;
      files.add_rows(20);
      auto paths = files.paths();
      paths.insert(paths.end(), {"/nowhere/at.all", paths[0]});
      const auto blocks = read_all(paths, options(7, threads, skip));
      CHECK(ids(blocks) == count_to(20));
      CHECK_EQ(blocks.back().fault.kind, FaultKind::kIo);
      CHECK_EQ(blocks.back().fault.os_error, ENOENT);
      CHECK_EQ(blocks.back().fault.path, "/nowhere/at.all");
    }
  }
}

TEST(a_cut_gzip_file_gives_its_rows_and_then_the_fault_or_the_next_file) {
  Files files;
  Bytes bytes;
  for (int i = 0; i < 40; ++i) bytes += framed(row(files.next++));
  const Bytes whole = gzipped(bytes);
  files.add(Bytes(whole.begin(), whole.end() - 8));
  files.add_rows(10);
  const auto stopped = read_by_all(files, 7);
  CHECK(ids(stopped) == count_to(40));
  CHECK(stopped.back().fault.what.find("ends early") != std::string::npos);
  const auto skipped = read_by_all(files, 7, /*skip=*/true);
  CHECK(ids(skipped) == count_to(50));
  CHECK(!skipped.back().fault);
}

TEST(large_records_make_short_blocks) {
  Files files;
  Bytes bytes;
  const Bytes large = framed(example(entry("id", ints({1})) + entry("unwanted", Bytes(24 << 20))));
  for (int i = 0; i < 4; ++i) bytes += large;
  files.add(bytes);
  for (size_t threads : {1, 2}) {
    const auto blocks = read_all(files.paths(), options(256, threads));
    if (!CHECK_EQ(blocks.size(), 2)) return;
    CHECK_EQ(blocks[0].rows, 3);
    CHECK_EQ(blocks[1].rows, 1);
  }
}

// Rows with up to `padding` unwanted bytes, so that they lie over the seams of stretches in many ways.
Bytes wide_rows(Files& files, size_t rows, size_t padding) {
  Bytes bytes;
  for (size_t i = 0; i < rows; ++i) {
    bytes += framed(row(files.next, static_cast<size_t>(files.next) * 7919 % padding));
    ++files.next;
  }
  return bytes;
}

TEST(records_lie_over_the_seams_of_stretches) {
  for (const size_t padding : {20, 40'000, 3'000'000}) {
    Files files;
    const size_t rows = padding < 1000 ? 30'000 : 12'000'000 / padding;
    files.add(wide_rows(files, rows, padding));
    files.add_rows(20, /*gzip=*/true);
    files.add(wide_rows(files, rows / 3, padding));
    files.add_rows(30);
    for (size_t block : {7, 256, 20'000}) {
      CHECK(ids(read_by_all(files, block)) == count_to(files.next));
    }
  }
}

TEST(damage_at_a_seam_comes_after_the_rows_in_front_of_it) {
  Files files;
  Bytes bytes = wide_rows(files, 1000, 3000);
  constexpr size_t kSeam = size_t{512} << 10;
  for (size_t at = kSeam - 4000; at < kSeam + 100; at += 37) {
    Files damaged;
    Bytes copy = bytes;
    copy[at] ^= 0x40;
    damaged.add(copy);
    damaged.add_rows(10);
    const auto blocks = read_by_all(damaged, 64);
    const auto before = ids(blocks);
    CHECK(before == count_to(static_cast<int64_t>(before.size())));
    CHECK_EQ(blocks.back().fault.kind, FaultKind::kCorrupt);
    if (!CHECK_EQ(blocks.back().fault.record, static_cast<int64_t>(before.size()))) return;
  }
}

TEST(reading_goes_on_from_after_any_block) {
  Files files;
  files.add_rows(50);
  files.add_rows(0);
  files.add_rows(40, /*gzip=*/true);
  files.add(wide_rows(files, 300, 9000));
  for (const size_t threads : {1, 3}) {
    const auto whole = read_all(files.paths(), options(7, threads));
    for (size_t i = 0; i < whole.size(); i += 3) {
      if (!CHECK(whole[i].next.has_value())) return;
      ReadOptions how = options(7, threads);
      how.start = *whole[i].next;
      const auto rest = read_all(files.paths(), how);
      CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + static_cast<ptrdiff_t>(i) + 1, whole.end(),
                       [](const DecodedBlock& a, const DecodedBlock& b) { return same(a, b); }));
    }
  }
}

TEST(reading_goes_on_after_a_fault) {
  const Damaged bad_payload(with_flipped_bit(framed(row(7)), 20)),
      bad_header(with_flipped_bit(framed(row(7)), 2));
  for (const size_t threads : {1, 3}) {
    for (const bool header : {false, true}) {
      const Damaged& damaged = header ? bad_header : bad_payload;
      const auto blocks = read_all(damaged.files.paths(), options(7, threads));
      if (!CHECK(blocks.back().resume.has_value())) return;
      ReadOptions how = options(7, threads);
      how.start = *blocks.back().resume;
      // After a record that is damaged the next one is found; after a header, only the next file.
      CHECK(ids(read_all(damaged.files.paths(), how)) == count_to(280, header ? 250 : 200));
    }
  }
}

TEST(a_start_behind_the_end_of_a_file_is_a_fault) {
  Files files;
  files.add_rows(10);
  files.add_rows(10, /*gzip=*/true);
  for (const size_t file : {0, 1}) {
    ReadOptions how = options(7, 1);
    how.start = {file, 1'000'000, 5};
    const auto blocks = read_all(files.paths(), how);
    CHECK_EQ(blocks.size(), 1);
    CHECK(blocks[0].fault.what.find("before byte 1000000") != std::string::npos);
    CHECK_EQ(blocks[0].fault.path, files.paths()[file]);
  }
}

TEST(records_as_they_are) {
  auto schema = std::make_shared<Schema>();
  Feature record;
  record.kind = ValueKind::kBytes;
  schema->whole = true;
  schema->features = {record};
  Files files;
  files.add(framed(text("one")) + framed({}) + framed(text("three")));
  const auto blocks = read_all(files.paths(), options(7, 2), schema);
  if (!CHECK_EQ(blocks.size(), 1)) return;
  const Column& column = blocks[0].columns.at(0);
  CHECK_EQ(std::string(column.data.as<char>(), column.data.size()), "onethree");
  CHECK_EQ(column.strings.as<int64_t>()[2], 3);
}

TEST(a_schema_of_nothing_still_counts_rows) {
  Files files;
  files.add_rows(20);
  const auto blocks = read_all(files.paths(), options(7, 2), std::make_shared<const Schema>());
  if (!CHECK_EQ(blocks.size(), 3)) return;
  CHECK_EQ(blocks[2].rows, 6);
  CHECK(blocks[0].columns.empty());
}

TEST(a_reader_may_be_destroyed_at_any_moment) {
  Files files;
  for (int i = 0; i < 4; ++i) files.add_rows(600);
  for (size_t turn = 0; turn < 200; ++turn) {
    BlockReader reader(files.paths(), row_schema(), options(turn % 3 == 0 ? 1 : 50, 2 + turn % 3));
    DecodedBlock block;
    // Now before the first block, now while workers wait for room, now in between.
    for (size_t taken = 0; taken < turn % 5; ++taken) CHECK_EQ(wait_for(reader, block), Outcome::kBlock);
    if (turn % 10 == 9) std::this_thread::sleep_for(milliseconds(2));
  }
}

TEST(nobody_waits_longer_than_he_has_patience) {
  Files files;
  files.add_rows(2000);
  BlockReader reader(files.paths(), row_schema(), options(1, 2));
  DecodedBlock block;
  size_t blocks = 0;
  for (Outcome outcome = Outcome::kWaiting; outcome != Outcome::kEnd;) {
    outcome = reader.next(milliseconds(0), block);
    if (outcome == Outcome::kBlock) {
      CHECK_EQ(block.columns[0].data.as<int64_t>()[0], blocks);
      ++blocks;
    }
  }
  CHECK_EQ(blocks, 2000);
}

}  // namespace
}  // namespace feedline
