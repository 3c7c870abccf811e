#include <string>

#include "core/framing.h"
#include "core/point_reader.h"
#include "tests/check.h"
#include "tests/samples.h"

namespace feedline {
namespace {

using namespace samples;

std::shared_ptr<const Schema> schema_of_ids() {
  auto schema = std::make_shared<Schema>();
  Feature id;
  id.name = id.key = "id";
  id.item_size = sizeof(int64_t);
  schema->features = {id};
  return schema;
}

// Files of ten records whose ids count on.
struct Files {
  explicit Files(size_t count) {
    for (size_t file = 0; file < count; ++file) {
      Bytes bytes;
      for (int64_t n = 0; n < 10; ++n) {
        const Bytes payload = example(entry("id", ints({static_cast<int64_t>(file) * 10 + n})));
        places.push_back({file, bytes.size(), payload.size(), n});
        bytes += framed(payload);
      }
      files.emplace_back(bytes);
      paths.push_back(files.back().path());
    }
  }
  std::vector<File> files;
  std::vector<std::string> paths;
  std::vector<RecordPlace> places;
};

TEST(records_come_in_the_order_asked_for_from_more_files_than_are_kept_open) {
  const Files files(50);
  PointReader reader(files.paths, schema_of_ids(), true);
  std::vector<RecordPlace> wanted;
  std::vector<int64_t> ids;
  for (size_t i = 0; i < 2000; ++i) {
    const size_t at = i * 7919 % files.places.size();
    wanted.push_back(files.places[at]);
    ids.push_back(static_cast<int64_t>(at));
  }
  const DecodedBlock block = reader.read(wanted);
  CHECK(!block.fault);
  if (!CHECK_EQ(block.rows, wanted.size())) return;
  const auto* found = block.columns[0].data.as<int64_t>();
  CHECK(std::equal(ids.begin(), ids.end(), found));
  CHECK_EQ(reader.read({}).rows, 0);
}

TEST(a_place_where_no_such_record_is_gives_a_fault_and_allocates_nothing) {
  const Files files(2);
  PointReader reader(files.paths, schema_of_ids(), true);
  const RecordPlace good = files.places[3];
  const RecordPlace lies[] = {{good.file, good.offset + 1, good.size, 3},
                              {good.file, good.offset, good.size + 1, 3},
                              {good.file, good.offset, uint64_t{1} << 62, 3},
                              {good.file, UINT64_MAX - 5, good.size, 3},
                              {good.file, good.offset, UINT64_MAX, 3}};
  for (const RecordPlace& lie : lies) {
    const RecordPlace places[] = {good, lie, good};
    const DecodedBlock block = reader.read(places);
    CHECK_EQ(block.rows, 1);
    CHECK_EQ(block.fault.kind, FaultKind::kCorrupt);
    CHECK_EQ(block.fault.path, files.paths[0]);
    CHECK_EQ(block.fault.record, 3);
  }
  const RecordPlace no_file[] = {{7, 0, 1, 0}};
  CHECK_EQ(reader.read(no_file).fault.kind, FaultKind::kIo);
}

TEST(a_damaged_payload_is_found_out_unless_it_is_not_looked_at) {
  const Bytes payload = example(entry("id", ints({5})));
  Bytes bytes = framed(payload);
  bytes.back() ^= 1;
  const File file(bytes);
  const RecordPlace places[] = {{0, 0, payload.size(), 0}};
  CHECK_EQ(PointReader({file.path()}, schema_of_ids(), true).read(places).fault.kind, FaultKind::kCorrupt);
  CHECK_EQ(PointReader({file.path()}, schema_of_ids(), false).read(places).rows, 1);
}

}  // namespace
}  // namespace feedline
