#include <string>

#include "core/small_files.h"
#include "tests/check.h"
#include "tests/id_files.h"

namespace feedline {
namespace {

using namespace samples;

TEST(small_files_are_read_into_one_block) {
  std::vector<File> files;
  std::vector<std::string> paths;
  for (int64_t i = 0; i < 40; ++i) {
    files.emplace_back(rows(100 * i, i % 4));
    paths.push_back(files.back().path());
  }
  SmallFiles reader(paths, schema_of_ids(), {});
  const SmallFiles::Result result = reader.take();
  const int64_t* const ids = result.block.columns[0].data.as<int64_t>();
  for (size_t i = 0; i < paths.size(); ++i) {
    CHECK(result.files[i].has_value());
    const auto [begin, end] = *result.files[i];
    CHECK_EQ(end - begin, i % 4);
    for (size_t row = begin; row < end; ++row)
      CHECK_EQ(ids[row], static_cast<int64_t>(100 * i + row - begin));
  }
}

TEST(files_that_are_not_small_and_sound_are_left_out) {
  Bytes bad_payload = rows(0, 3), bad_header = rows(0, 3);
  bad_payload.back() ^= 1;
  bad_header[3] ^= 1;
  const File sound(rows(5, 2)), large(rows(0, 100)), payload(bad_payload), header(bad_header),
      other(framed(example(entry("other", ints({1}))))),
      cut(Bytes(bad_payload.begin(), bad_payload.begin() + 20));
  ReadOptions options;
  options.block_bytes = bad_payload.size();
  for (const bool verify : {true, false}) {
    options.verify = verify;
    SmallFiles reader({large.path(), payload.path(), sound.path(), "/nowhere", header.path(), "/",
                       other.path(), cut.path(), sound.path()},
                      schema_of_ids(), options);
    const SmallFiles::Result result = reader.take();
    for (const size_t left_out : {0, 3, 4, 5, 6, 7}) CHECK(!result.files[left_out].has_value());
    CHECK_EQ(result.files[1].has_value(), !verify);
    for (const size_t whole : {2, 8}) {
      CHECK(result.files[whole].has_value());
      CHECK_EQ(result.files[whole]->end - result.files[whole]->begin, size_t{2});
      CHECK_EQ(result.block.columns[0].data.as<int64_t>()[result.files[whole]->begin], 5);
    }
    CHECK(!result.block.fault);
  }
}

TEST(small_files_may_be_dropped_at_any_moment) {
  const File file(rows(0, 20));
  for (int turn = 0; turn < 300; ++turn) {
    SmallFiles reader({file.path(), file.path()}, schema_of_ids(), {});
    if (turn % 3 == 0) CHECK_EQ(reader.take().block.rows, size_t{40});
  }
}

}  // namespace
}  // namespace feedline
