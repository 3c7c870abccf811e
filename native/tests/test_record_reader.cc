#include <algorithm>
#include <random>

#include "core/framing.h"
#include "core/record_reader.h"
#include "tests/check.h"
#include "tests/samples.h"

namespace feedline {
namespace {

using namespace samples;
using OnDamage = RecordReader::OnDamage;

constexpr size_t kChunk = size_t{256} << 10;

struct Limits {
  size_t records = 1000;
  size_t bytes = SIZE_MAX;
};

// All that a file gave.
struct Found {
  struct Record {
    Bytes payload;
    uint64_t offset;
    int64_t number;
    bool holds;  // its payload's checksum

    bool operator==(const Record&) const = default;
  };
  std::vector<Record> records;
  std::vector<Fault> skipped;
  Fault fault;

  std::vector<Bytes> sound() const {
    std::vector<Bytes> payloads;
    for (const Record& record : records) {
      if (record.holds) payloads.push_back(record.payload);
    }
    return payloads;
  }
};

// `stretch`: so many bytes at a time are read beforehand and fed; 0: the reader reads.
Found read(const Bytes& file, OnDamage on_damage, Limits limits = {}, size_t stretch = 0) {
  const File stored(file);
  std::unique_ptr<RecordReader> reader;
  uint64_t fed = 0;
  Found found;
  found.fault = RecordReader::open(stored.path(), Compression::kAuto, on_damage, reader);
  if (found.fault) return found;
  const auto feed = [&] {
    CHECK(fed < file.size() || fed == 0);
    const size_t size = std::min<size_t>(stretch, file.size() - fed);
    reader->feed(reader->read_stretch(fed, size));
    fed += size;
  };
  if (stretch != 0) feed();
  // All batches are kept to the end: records must outlive the reader's progress.
  std::vector<RecordBatch> batches;
  while (!reader->done() && !found.fault) {
    RecordBatch& batch = batches.emplace_back();
    found.fault = reader->next(limits.records, limits.bytes, batch);
    CHECK(batch.records.size() <= limits.records);
    const bool full = batch.records.size() == limits.records || batch.bytes >= limits.bytes;
    if (stretch != 0 && !full && !reader->done()) {
      feed();
    } else {
      CHECK(reader->done() || !batch.records.empty());
    }
    CHECK(batch.bytes < limits.bytes || batch.bytes - batch.records.back().size < limits.bytes);
  }
  CHECK(reader->done());
  reader.reset();
  for (const RecordBatch& batch : batches) {
    size_t bytes = 0;
    for (const RecordView& record : batch.records) {
      const auto payload = record.payload();
      found.records.push_back(
          {Bytes(payload.begin(), payload.end()), record.offset, record.number, payload_holds(record)});
      bytes += payload.size();
    }
    CHECK_EQ(batch.bytes, bytes);
    found.skipped.insert(found.skipped.end(), batch.skipped.begin(), batch.skipped.end());
  }
  for (const Fault& note : found.skipped) {
    CHECK_EQ(note.kind, FaultKind::kCorrupt);
    CHECK_EQ(note.path, stored.path());
    CHECK(note.record >= 0 && note.offset >= 0);
  }
  if (found.fault) CHECK_EQ(found.fault.path, stored.path());
  return found;
}

// A file of sound records, and where they lie in it.
struct Sample {
  explicit Sample(const std::vector<size_t>& sizes) {
    for (size_t size : sizes) add(payload(size, static_cast<uint8_t>(payloads.size() * 31 + 5)));
  }
  void add(const Bytes& bytes) {
    offsets.push_back(file.size());
    payloads.push_back(bytes);
    file += framed(bytes);
  }
  // The records up to `count`, as they are read from a sound file.
  bool begins(const Found& found, size_t count) const {
    if (!CHECK_EQ(found.records.size(), count)) return false;
    for (size_t i = 0; i < count; ++i) {
      const Found::Record whole{payloads[i], offsets[i], static_cast<int64_t>(i), true};
      if (!CHECK(found.records[i] == whole)) return false;
    }
    return true;
  }
  size_t record_at(size_t byte) const {
    return static_cast<size_t>(std::upper_bound(offsets.begin(), offsets.end(), byte) - offsets.begin()) - 1;
  }
  std::vector<Bytes> payloads_but(size_t left_out) const {
    std::vector<Bytes> others = payloads;
    others.erase(others.begin() + static_cast<ptrdiff_t>(left_out));
    return others;
  }

  Bytes file;
  std::vector<Bytes> payloads;
  std::vector<uint64_t> offsets;
};

std::vector<Bytes> joined(std::vector<Bytes> front, const std::vector<Bytes>& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

constexpr OnDamage kBoth[] = {OnDamage::kStop, OnDamage::kResync};

void check_reads_whole(const Sample& sample, Limits limits = {}) {
  for (OnDamage on_damage : kBoth) {
    for (bool gzip : {false, true}) {
      const Found found = read(gzip ? gzipped(sample.file) : sample.file, on_damage, limits);
      CHECK(!found.fault);
      CHECK(found.skipped.empty());
      sample.begins(found, sample.payloads.size());
    }
  }
}

TEST(an_empty_file_has_no_records) { check_reads_whole(Sample({})); }

TEST(records_of_all_small_sizes_are_read_whatever_the_limits) {
  std::vector<size_t> sizes(100);
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = i % 37;
  const Sample sample(sizes);
  for (Limits limits : {Limits{}, Limits{1}, Limits{7}, Limits{1000, 1}, Limits{1000, 50}, Limits{3, 40}}) {
    check_reads_whole(sample, limits);
  }
}

TEST(zero_length_records_fill_batches_by_number) {
  const Sample sample(std::vector<size_t>(50));
  check_reads_whole(sample, {4, 1});
}

TEST(records_straddle_the_borders_of_chunks_at_every_byte) {
  // A frame of 64 bytes lies over the border, its first byte from 65 in front of it to the one behind.
  for (size_t in_front = 0; in_front <= 65; ++in_front) {
    const Sample sample({kChunk - 16 - in_front, 48, 0, 48});
    const Found found = read(sample.file, in_front % 2 == 0 ? OnDamage::kStop : OnDamage::kResync);
    CHECK(!found.fault && found.skipped.empty());
    if (!sample.begins(found, 4)) break;
  }
}

TEST(many_chunks_of_records_are_read) {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 3000; ++i) sizes.push_back(i * 7919 % 701);
  check_reads_whole(Sample(sizes), {100});
}

TEST(records_larger_than_a_chunk_are_read) {
  check_reads_whole(Sample({10, kChunk, 10, 3 * kChunk + 1, 0, kChunk - 16, kChunk - 15, 4 * kChunk, 5}));
}

TEST(stretches_that_are_fed_give_what_the_reader_reads_itself) {
  const Sample sound({5, 0, 23, 1, 300, 0, 12, 40});
  std::vector<Bytes> files = {sound.file};
  for (size_t size = 0; size < sound.file.size(); ++size) {
    files.emplace_back(sound.file.begin(), sound.file.begin() + static_cast<ptrdiff_t>(size));
    Bytes flipped = sound.file;
    flipped[size] ^= 4;
    files.push_back(flipped);
  }
  for (const Bytes& file : files) {
    for (Limits limits : {Limits{}, Limits{1}, Limits{1000, 25}}) {
      const Found alone = read(file, OnDamage::kStop, limits);
      for (size_t stretch : {1, 5, 11, 12, 13, 17, 100, 1000}) {
        const Found fed = read(file, OnDamage::kStop, limits, stretch);
        CHECK(fed.records == alone.records);
        CHECK_EQ(fed.fault.what, alone.fault.what);
        CHECK_EQ(fed.fault.record, alone.fault.record);
        if (!CHECK_EQ(fed.fault.offset, alone.fault.offset)) return;
      }
    }
  }
}

TEST(a_file_that_shrank_ends_with_a_fault_where_its_bytes_end) {
  const Sample sample({200'000, 200'000, 200'000});
  for (const OnDamage on_damage : {OnDamage::kStop, OnDamage::kResync}) {
    for (const size_t end : {size_t{0}, size_t{200'016}, size_t{250'000}}) {
      for (const bool fed : {false, true}) {
        const File file(sample.file);
        std::unique_ptr<RecordReader> reader;
        CHECK(!RecordReader::open(file.path(), Compression::kAuto, on_damage, reader));
        file.cut(end);
        if (fed) reader->feed(reader->read_stretch(0, sample.file.size()));
        RecordBatch batch;
        const Fault fault = reader->next(10, SIZE_MAX, batch);
        CHECK_EQ(batch.records.size(), end == 0 ? 0u : 1u);
        CHECK(reader->done());
        CHECK_EQ(fault.kind, FaultKind::kIo);
        CHECK_EQ(fault.os_error, ESTALE);
        CHECK_EQ(fault.what.rfind("the file shrank from 600048 to " + std::to_string(end) + " bytes", 0), 0u);
      }
    }
  }
}

TEST(a_small_file_is_read_as_it_was_when_it_was_opened) {
  const Sample sample({100, 100, 100});
  const File file(sample.file);
  std::unique_ptr<RecordReader> reader;
  CHECK(!RecordReader::open(file.path(), Compression::kAuto, OnDamage::kStop, reader));
  file.cut(150);
  RecordBatch batch;
  CHECK(!reader->next(10, SIZE_MAX, batch));
  CHECK_EQ(batch.records.size(), 3u);
  CHECK_EQ(reader->source().consumed(), sample.file.size());
}

TEST(a_batch_is_split_into_what_it_was_joined_from) {
  const Sample one({3, 5, 7}), two({11, 13});
  RecordBatch whole;
  for (const Sample* sample : {&one, &two}) {
    const File file(sample->file);
    std::unique_ptr<RecordReader> reader;
    CHECK(!RecordReader::open(file.path(), Compression::kAuto, OnDamage::kStop, reader));
    CHECK(!reader->next(10, SIZE_MAX, whole));
  }
  for (size_t at = 0; at <= 5; ++at) {
    RecordBatch front, rest;
    front.append(whole);
    front.skip(Fault::corrupt("a note at the end"));
    rest = front.split(at, 0);
    CHECK_EQ(front.records.size(), at);
    CHECK_EQ(rest.records.size(), 5 - at);
    CHECK_EQ(rest.skipped_at, std::vector<size_t>{5 - at});
    CHECK(front.skipped.empty() && front.skipped_at.empty());
    CHECK_EQ(rest.chunks.size(), at < 3 ? 2 : at < 5 ? 1 : 0);
    for (size_t i = at; i < 5; ++i) CHECK_EQ(rest.path_of(i - at), whole.path_of(i));
    CHECK_EQ(front.bytes + rest.bytes, whole.bytes);
    front.append(rest);
    CHECK_EQ(front.bytes, whole.bytes);
    for (size_t i = 0; i < 5; ++i) {
      CHECK_EQ(front.records[i].data, whole.records[i].data);
      CHECK_EQ(front.path_of(i), whole.path_of(i));
    }
  }
}

TEST(a_file_cut_at_any_byte_gives_the_whole_records_in_front_of_the_cut) {
  const Sample sample({5, 0, 23, 1, 40});
  for (size_t size = 0; size < sample.file.size(); ++size) {
    const Bytes cut(sample.file.begin(), sample.file.begin() + static_cast<ptrdiff_t>(size));
    const size_t whole = sample.record_at(size);
    const bool clean = sample.offsets[whole] == size;

    const Found stopped = read(cut, OnDamage::kStop);
    if (!sample.begins(stopped, whole) || !CHECK_EQ(static_cast<bool>(stopped.fault), !clean)) break;
    if (!clean) {
      CHECK_EQ(stopped.fault.kind, FaultKind::kCorrupt);
      CHECK_EQ(stopped.fault.record, whole);
      CHECK_EQ(stopped.fault.offset, sample.offsets[whole]);
    }

    const Found passed = read(cut, OnDamage::kResync);
    CHECK(!passed.fault);
    if (!sample.begins(passed, whole) || !CHECK_EQ(passed.skipped.size(), clean ? 0 : 1)) break;
    if (!clean) CHECK_EQ(passed.skipped[0].offset, sample.offsets[whole]);
  }
}

TEST(a_flipped_bit_costs_the_record_that_it_is_in_and_no_other) {
  const Sample sample({5, 0, 23, 1, 40});
  for (size_t bit = 0; bit < sample.file.size() * 8; ++bit) {
    Bytes file = sample.file;
    file[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const size_t hit = sample.record_at(bit / 8);
    const bool in_header = bit / 8 - sample.offsets[hit] < kHeaderSize;

    const Found stopped = read(file, OnDamage::kStop);
    if (!CHECK_EQ(static_cast<bool>(stopped.fault), in_header)) break;
    if (in_header) {
      CHECK_EQ(stopped.fault.record, hit);
      CHECK_EQ(stopped.fault.offset, sample.offsets[hit]);
      if (!sample.begins(stopped, hit)) break;
    }

    const Found passed = read(file, OnDamage::kResync);
    CHECK(!passed.fault);
    if (!CHECK_EQ(passed.skipped.size(), 1)) break;
    CHECK_EQ(passed.skipped[0].record, hit);
    if (!CHECK(passed.sound() == sample.payloads_but(hit))) break;
    for (const Found::Record& record : passed.records) {
      CHECK(record.holds);
      CHECK_EQ(record.offset, sample.offsets[static_cast<size_t>(record.number)]);
    }

    const Found unchecked = read(file, OnDamage::kResyncHeaders);
    CHECK_EQ(unchecked.skipped.size(), in_header ? 1 : 0);
    if (!CHECK(unchecked.sound() == sample.payloads_but(hit))) break;
  }
}

TEST(a_payload_fault_names_the_record_and_both_checksums) {
  Sample sample({3, 4});
  sample.file.back() ^= 0x80;
  const File file(sample.file);
  std::unique_ptr<RecordReader> reader;
  RecordBatch batch;
  CHECK(!RecordReader::open(file.path(), Compression::kAuto, OnDamage::kStop, reader));
  CHECK(!reader->next(10, SIZE_MAX, batch));
  if (!CHECK_EQ(batch.records.size(), 2)) return;
  CHECK(payload_holds(batch.records[0]));
  CHECK(!payload_holds(batch.records[1]));
  const Fault fault = payload_fault(batch.records[1]);
  CHECK_EQ(fault.record, 1);
  CHECK_EQ(fault.offset, sample.offsets[1]);
  CHECK(fault.what.starts_with("payload checksum 0x"));
  CHECK_EQ(batch.path_of(1), file.path());
}

TEST(a_hostile_length_with_a_sound_checksum_allocates_nothing) {
  const Sample front({3, 9}), back({7, 0, 8});
  for (uint64_t length : {uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 15, uint64_t{1} << 40}) {
    for (bool gzip : {false, true}) {
      const Bytes file = front.file + header(length) + payload(20, 9) + back.file;
      const Found stopped = read(gzip ? gzipped(file) : file, OnDamage::kStop);
      front.begins(stopped, 2);
      CHECK_EQ(stopped.fault.record, 2);
      CHECK_EQ(stopped.fault.offset, front.file.size());
      CHECK(stopped.fault.what.find(std::to_string(length)) != std::string::npos);

      const Found passed = read(gzip ? gzipped(file) : file, OnDamage::kResync);
      CHECK(!passed.fault);
      CHECK(passed.sound() == joined(front.payloads, back.payloads));
      CHECK_EQ(passed.skipped.size(), 1);
    }
  }
}

TEST(a_length_just_past_the_end_of_a_gzip_file_is_found_out) {
  const Sample front({3, 9});
  const Bytes file = front.file + header(uint64_t{1} << 30) + payload(2 * kChunk, 1);
  for (OnDamage on_damage : kBoth) {
    const Found found = read(gzipped(file), on_damage);
    front.begins(found, 2);
    CHECK_EQ(static_cast<bool>(found.fault), on_damage == OnDamage::kStop);
    CHECK_EQ(found.skipped.size(), on_damage == OnDamage::kStop ? 0 : 1);
  }
}

TEST(garbage_between_records_is_passed_over) {
  for (size_t size :
       {size_t{1}, size_t{11}, size_t{12}, size_t{13}, size_t{500}, kChunk - 40, kChunk, 3 * kChunk}) {
    for (bool gzip : {false, true}) {
      const Sample front({30, 31}), back({32, 0, 33});
      const Bytes file = front.file + payload(size, 3) + back.file;
      const Found found = read(gzip ? gzipped(file) : file, OnDamage::kResync);
      CHECK(!found.fault);
      if (!CHECK(found.sound() == joined(front.payloads, back.payloads)) ||
          !CHECK_EQ(found.skipped.size(), 1))
        break;
      CHECK_EQ(found.skipped[0].record, 2);
      CHECK_EQ(found.skipped[0].offset, front.file.size());
      CHECK_EQ(found.records.back().number, 5);
    }
  }
}

TEST(the_next_header_is_found_wherever_it_lies_at_the_border_of_a_chunk) {
  for (size_t at = kChunk - 14; at < kChunk + 3; ++at) {
    const Sample back({32, 0, 33});
    const Found found = read(payload(at, 3) + back.file, OnDamage::kResync);
    if (!CHECK(found.sound() == back.payloads) || !CHECK_EQ(found.skipped.size(), 1)) break;
    CHECK_EQ(found.records[0].offset, at);
  }
}

TEST(a_lie_behind_a_damaged_payload_is_passed_over_too) {
  // In a compressed file only its end tells that a length was a lie.
  const Sample back({30, 31});
  Bytes damaged = framed(payload(40, 1));
  damaged[20] ^= 1;
  const Bytes file = damaged + header(uint64_t{1} << 30) + back.file;
  for (bool gzip : {false, true}) {
    const Found found = read(gzip ? gzipped(file) : file, OnDamage::kResync);
    CHECK(!found.fault);
    CHECK(found.sound() == back.payloads);
  }
}

TEST(records_that_follow_a_torn_one_are_found_wherever_it_was_torn) {
  // The sizes are such that the end that the torn record claims never falls on the border of two records.
  const Sample front({20}), back({301, 17, 300, 0, 41});
  const Bytes torn = framed(payload(150, 77));
  for (size_t written = 1; written < torn.size(); ++written) {
    const Bytes file =
        front.file + Bytes(torn.begin(), torn.begin() + static_cast<ptrdiff_t>(written)) + back.file;
    const std::vector<Bytes> all = joined(front.payloads, back.payloads);
    for (Limits limits : {Limits{}, Limits{1}}) {
      const Found found = read(file, OnDamage::kResync, limits);
      CHECK(!found.fault);
      if (!CHECK(found.sound() == all)) return;
      CHECK_EQ(found.skipped.size(), 1);
    }
    CHECK(read(gzipped(file), OnDamage::kResync).sound() == all);
  }
}

TEST(records_that_follow_a_large_torn_one_are_found_over_many_chunks) {
  std::vector<size_t> sizes(3000, 1001);
  const Sample back(sizes);
  for (uint64_t claimed : {uint64_t{2} << 20, uint64_t{1} << 21 | 5, uint64_t{1} << 30}) {
    const Bytes file = header(claimed) + payload(100'000, 1) + back.file;
    for (bool gzip : {false, true}) {
      const Found found = read(gzip ? gzipped(file) : file, OnDamage::kResync, {64});
      CHECK(!found.fault);
      CHECK(found.sound() == back.payloads);
    }
  }
}

TEST(two_damaged_stretches_are_two_notes) {
  Sample sample({50, 51, 52, 53, 54, 55});
  sample.file[sample.offsets[1] + 3] ^= 1;   // the length of one
  sample.file[sample.offsets[4] + 10] ^= 1;  // the header's checksum of another
  const Found found = read(sample.file, OnDamage::kResync);
  CHECK(!found.fault);
  if (!CHECK_EQ(found.skipped.size(), 2) || !CHECK_EQ(found.records.size(), 4)) return;
  CHECK_EQ(found.skipped[0].record, 1);
  CHECK_EQ(found.skipped[0].offset, sample.offsets[1]);
  CHECK_EQ(found.skipped[1].record, 4);
  CHECK_EQ(found.skipped[1].offset, sample.offsets[4]);
  const int64_t numbers[] = {0, 2, 3, 5};
  for (size_t i = 0; i < 4; ++i) {
    CHECK_EQ(found.records[i].number, numbers[i]);
    CHECK(found.records[i].payload == sample.payloads[static_cast<size_t>(numbers[i])]);
  }
}

TEST(a_damaged_payload_followed_by_a_damaged_header_costs_two_records) {
  Sample sample({50, 51, 52, 53});
  sample.file[sample.offsets[1] + 20] ^= 1;
  sample.file[sample.offsets[2] + 2] ^= 1;
  const Found found = read(sample.file, OnDamage::kResync);
  CHECK(found.sound() == std::vector<Bytes>({sample.payloads[0], sample.payloads[3]}));
  CHECK_EQ(found.skipped.size(), 1);
}

TEST(a_gzip_file_cut_anywhere_gives_the_records_in_front_of_the_cut) {
  std::mt19937 random(5);
  Sample sample({});
  for (size_t i = 0; i < 400; ++i) {
    Bytes noise(2000);
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
    sample.add(noise);
  }
  const Bytes whole = gzipped(sample.file);
  for (size_t part = 1; part < 16; ++part) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(whole.size() * part / 16));
    const Found stopped = read(cut, OnDamage::kStop, {64});
    const Found passed = read(cut, OnDamage::kResync, {64});
    // Noise does not compress, so nearly all that was written is there.
    const size_t least = 400 * part / 16 < 40 ? 0 : 400 * part / 16 - 40;
    CHECK(stopped.records.size() >= least && stopped.records.size() < 400 * part / 16 + 1);
    CHECK_EQ(stopped.fault.kind, FaultKind::kCorrupt);
    CHECK(stopped.fault.what.starts_with("the gzip stream ends early"));
    CHECK_EQ(stopped.fault.record, stopped.records.size());
    CHECK(!passed.fault && !passed.skipped.empty());
    sample.begins(stopped, stopped.records.size());
    if (!sample.begins(passed, stopped.records.size())) break;
  }
}

TEST(a_gzip_file_that_only_lacks_its_trailer_gives_every_record) {
  const Sample sample({100, 200, 300});
  const Bytes whole = gzipped(sample.file);
  const Bytes cut(whole.begin(), whole.end() - 4);
  const Found stopped = read(cut, OnDamage::kStop);
  sample.begins(stopped, 3);
  CHECK(stopped.fault.what.starts_with("the gzip stream ends early"));
  CHECK_EQ(stopped.fault.record, 3);
  const Found passed = read(cut, OnDamage::kResync);
  sample.begins(passed, 3);
  CHECK_EQ(passed.skipped.size(), 1);
}

TEST(random_bytes_have_no_records) {
  std::mt19937 random(11);
  for (size_t size : {size_t{1}, size_t{12}, size_t{13}, size_t{16}, size_t{1000}, 2 * kChunk + 7}) {
    Bytes noise(size);
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
    noise[0] = 1;  // neither gzip nor zlib
    const Found stopped = read(noise, OnDamage::kStop);
    CHECK_EQ(stopped.fault.kind, FaultKind::kCorrupt);
    CHECK_EQ(stopped.fault.record, 0);
    CHECK_EQ(stopped.fault.offset, 0);
    CHECK(stopped.records.empty());
    const Found passed = read(noise, OnDamage::kResync);
    CHECK(!passed.fault && passed.records.empty());
    CHECK_EQ(passed.skipped.size(), 1);
  }
}

TEST(a_batch_of_several_files_knows_the_file_of_each_record) {
  const File first(Sample({1, 2}).file), none(Bytes{}), second(Sample({3, 4, 5}).file);
  RecordBatch batch;
  for (const File* file : {&first, &none, &second}) {
    std::unique_ptr<RecordReader> reader;
    CHECK(!RecordReader::open(file->path(), Compression::kAuto, OnDamage::kStop, reader));
    while (!reader->done()) CHECK(!reader->next(100, SIZE_MAX, batch));
  }
  if (!CHECK_EQ(batch.records.size(), 5)) return;
  for (size_t i = 0; i < 5; ++i) CHECK_EQ(batch.path_of(i), i < 2 ? first.path() : second.path());
  CHECK_EQ(batch.records[2].number, 0);
  CHECK_EQ(batch.bytes, 15);
  batch.clear();
  CHECK(batch.records.empty() && batch.chunks.empty() && batch.bytes == 0);
}

TEST(what_is_appended_while_a_file_is_read_is_not_looked_at) {
  File file(framed(payload(10, 1)));
  std::unique_ptr<RecordReader> reader;
  CHECK(!RecordReader::open(file.path(), Compression::kAuto, OnDamage::kStop, reader));
  file.append(framed(payload(20, 2)));
  RecordBatch batch;
  CHECK(!reader->next(100, SIZE_MAX, batch));
  CHECK_EQ(batch.records.size(), 1);
}

TEST(a_torn_record_hides_none_even_if_it_seems_to_end_where_another_begins) {
  Bytes torn = framed(payload(100, 7));
  torn.resize(kHeaderSize + 40);
  for (const Bytes& tail : {Bytes{}, framed(payload(5, 2))}) {
    const Found found = read(torn + framed(payload(48, 9)) + tail, OnDamage::kResync);
    CHECK_EQ(found.records.size(), tail.empty() ? 1 : 2);
    CHECK(found.records[0].payload == payload(48, 9));
    CHECK_EQ(found.skipped.size(), 1);
  }
}

TEST(records_inside_a_damaged_payload_are_not_taken_for_records_of_the_file) {
  Bytes file = framed(framed(payload(5, 1)) + framed(payload(6, 2))) + framed(payload(7, 3));
  file[kHeaderSize + kHeaderSize] ^= 1;
  const Found found = read(file, OnDamage::kResync);
  CHECK(found.sound() == std::vector<Bytes>{payload(7, 3)});
}

TEST(headers_one_inside_the_other_are_one_stretch_and_soon_passed) {
  Bytes file;
  for (int i = 0; i < 20'000; ++i) file += header(200'000) + Bytes(4);
  file += Bytes(200'100) + framed(payload(5, 1));
  const Found plain = read(file, OnDamage::kResync);
  CHECK(plain.sound() == std::vector<Bytes>{payload(5, 1)});
  CHECK(plain.skipped.size() <= 2);

  Bytes headers;
  for (int i = 0; i < 20'000; ++i) headers += header(1u << 30);
  CHECK_EQ(read(gzipped(headers), OnDamage::kResync).skipped.size(), 1);
}

TEST(damage_in_front_of_a_cut_in_a_gzip_file_is_told_as_such) {
  Bytes file = framed(payload(50, 1)) + framed(payload(50, 2)) + framed(payload(50, 3));
  file[66 + 1] ^= 1;
  Bytes cut = gzipped(file);
  cut.resize(cut.size() - 4);
  CHECK(read(cut, OnDamage::kStop).fault.what.starts_with("header checksum"));
}

TEST(a_missing_file_is_a_fault_of_the_system) {
  std::unique_ptr<RecordReader> reader;
  const Fault fault = RecordReader::open("/nowhere/at.all", Compression::kAuto, OnDamage::kResync, reader);
  CHECK_EQ(fault.kind, FaultKind::kIo);
  CHECK_EQ(fault.path, "/nowhere/at.all");
  CHECK(reader == nullptr);
}

}  // namespace
}  // namespace feedline
