#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "core/file_pool.h"
#include "core/source.h"
#include "tests/check.h"

namespace feedline {
namespace {

namespace fs = std::filesystem;

// A directory of files that hold their own numbers.
class Directory {
 public:
  Directory() {
    std::string made = fs::temp_directory_path() / "feedline-XXXXXX";
    path_ = ::mkdtemp(made.data());
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() { fs::remove_all(path_); }

  std::string file(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }

 private:
  fs::path path_;
};

Fault read(DataFile& file, const FileBudgets& budgets, std::string& text) {
  DataFile::Loan loan;
  if (Fault fault = file.borrow(budgets, {}, loan)) return fault;
  std::array<uint8_t, 64> bytes{};
  size_t got = 0;
  Fault fault = loan.read_at(0, bytes, got);
  text.assign(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(got));
  return fault;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(any_number_of_files_is_read_with_few_open) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(3);
  std::vector<std::unique_ptr<DataFile>> files;
  for (int i = 0; i < 20; ++i) {
    files.push_back(
        std::make_unique<DataFile>(directory.write(std::to_string(i), "number " + std::to_string(i))));
  }
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < files.size(); ++i) {
      std::string text;
      CHECK(!read(*files[i], {budget}, text));
      CHECK_EQ(text, "number " + std::to_string(i));
      CHECK(budget->open() <= 3);
    }
  }
  CHECK_EQ(budget->most(), 3u);
  files.clear();
  CHECK_EQ(budget->open(), 0u);
}

TEST(the_least_recently_used_file_is_closed_first) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(2);
  DataFile a(directory.write("a", "a")), b(directory.write("b", "b")), c(directory.write("c", "c"));
  std::string text;
  for (DataFile* file : {&a, &b, &a, &c}) CHECK(!read(*file, {budget}, text));
  DataFile::Loan of_a, of_b;
  CHECK(!a.borrow({budget}, {}, of_a));
  CHECK(!of_a.is_fresh());
  CHECK(!b.borrow({budget}, {}, of_b));
  CHECK(of_b.is_fresh());
}

TEST(a_file_counts_against_every_budget_of_its_reader) {
  const Directory directory;
  const auto narrow = std::make_shared<FileBudget>(1), wide = std::make_shared<FileBudget>(3);
  DataFile a(directory.write("a", "a")), b(directory.write("b", "b")), c(directory.write("c", "c"));
  std::string text;
  CHECK(!read(a, {wide, narrow}, text));
  CHECK(!read(b, {wide, narrow}, text));
  CHECK(!read(c, {wide}, text));
  CHECK_EQ(narrow->open(), 1u);
  CHECK_EQ(wide->open(), 2u);
}

TEST(a_lower_limit_closes_idle_files_at_once_and_others_when_their_read_ends) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(3);
  DataFile a(directory.write("a", "a")), b(directory.write("b", "b")), c(directory.write("c", "c"));
  std::string text;
  for (DataFile* file : {&a, &b, &c}) CHECK(!read(*file, {budget}, text));
  DataFile::Loan of_a, of_b;
  CHECK(!a.borrow({budget}, {}, of_a));
  CHECK(!b.borrow({budget}, {}, of_b));
  budget->set_limit(1);
  CHECK_EQ(budget->open(), 2u);
  of_a = {};
  CHECK_EQ(budget->open(), 1u);
  of_b = {};
  CHECK_EQ(budget->open(), 1u);
}

TEST(a_file_that_was_removed_or_replaced_while_it_was_closed_is_a_fault) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(1);
  DataFile gone(directory.write("gone", "x")), other(directory.write("other", "y"));
  DataFile replaced(directory.write("replaced", "z"));
  std::string text;
  CHECK(!read(gone, {budget}, text));
  CHECK(!read(replaced, {budget}, text));
  CHECK(!read(other, {budget}, text));
  fs::remove(directory.file("gone"));
  directory.write("new", "zz");
  fs::rename(directory.file("new"), directory.file("replaced"));
  const Fault removed = read(gone, {budget}, text), changed = read(replaced, {budget}, text);
  CHECK_EQ(removed.os_error, ENOENT);
  CHECK(contains(removed.what, "was removed while it was being read"));
  CHECK_EQ(removed.path, directory.file("gone"));
  CHECK_EQ(changed.os_error, ESTALE);
  CHECK(contains(changed.what, "was replaced by another one"));
  CHECK(!read(other, {budget}, text));  // the place is free again
}

TEST(a_file_with_the_same_size_and_time_under_another_inode_is_the_same) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(1);
  DataFile file(directory.write("a", "same")), other(directory.write("other", "y"));
  std::string text;
  CHECK(!read(file, {budget}, text));
  CHECK(!read(other, {budget}, text));
  fs::last_write_time(directory.write("copy", "same"), fs::last_write_time(directory.file("a")));
  fs::rename(directory.file("copy"), directory.file("a"));
  CHECK(!read(file, {budget}, text));
  CHECK_EQ(text, "same");
}

TEST(a_file_that_was_replaced_while_it_was_open_is_read_as_it_was) {
  const Directory directory;
  DataFile file(directory.write("a", "old"));
  std::string text;
  CHECK(!read(file, {}, text));
  directory.write("new", "new");
  fs::rename(directory.file("new"), directory.file("a"));
  CHECK(!read(file, {}, text));
  CHECK_EQ(text, "old");
}

TEST(a_relative_path_stands_for_the_same_file_wherever_the_program_goes) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(1);
  const fs::path before = fs::current_path();
  DataFile other(directory.write("other", "other"));
  directory.write("a", "a");
  fs::current_path(directory.file(""));
  DataFile file("a");
  std::string text;
  CHECK(!read(file, {budget}, text));
  fs::current_path(before);
  CHECK(!read(other, {budget}, text));
  CHECK(!read(file, {budget}, text));
  CHECK_EQ(text, "a");
}

TEST(pipes_that_use_up_the_limit_are_named_instead_of_waited_for) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(1);
  CHECK_EQ(::mkfifo(directory.file("pipe").c_str(), 0600), 0);
  DataFile pipe(directory.file("pipe")), file(directory.write("a", "a"));
  DataFile::Loan of_pipe;
  CHECK(!pipe.borrow({budget}, {}, of_pipe));
  for (int i = 0; i < 2; ++i) {
    std::string text;
    const Fault fault = read(file, {budget}, text);
    CHECK_EQ(fault.os_error, EMFILE);
    CHECK(contains(fault.what, "the limit of 1 open file is used up by pipes"));
    CHECK(contains(fault.what, "Raise max_open_files"));
    of_pipe = {};  // it stays open all the same
  }
}

TEST(a_wait_for_a_place_ends_with_the_read_that_holds_it_or_when_interrupted) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(1);
  DataFile busy(directory.write("a", "a")), waiting(directory.write("b", "b"));
  DataFile::Loan held, got;
  CHECK(!busy.borrow({budget}, {}, held));
  CHECK_EQ(waiting.borrow({budget}, [] { return true; }, got).os_error, ECANCELED);
  std::atomic<bool> waits = false;
  std::thread other([&] {
    while (!waits) std::this_thread::yield();
    held = {};
  });
  CHECK(!waiting.borrow({budget}, [&] { return waits = true, false; }, got));
  other.join();
}

TEST(threads_that_read_the_same_few_files_stay_within_the_limit) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(2);
  std::vector<std::unique_ptr<DataFile>> files;
  for (int i = 0; i < 6; ++i)
    files.push_back(std::make_unique<DataFile>(directory.write(std::to_string(i), std::to_string(i))));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 300; ++i) {
        const size_t number = (i * (t + 1) + t) % files.size();
        std::string text;
        if (read(*files[number], {budget}, text) || text != std::to_string(number)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK(budget->most() <= 2);
}

TEST(a_forked_child_goes_on_reading) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(1);
  DataFile a(directory.write("a", "a")), b(directory.write("b", "b"));
  DataFile::Loan lent;  // by a thread that the child does not have
  CHECK(!a.borrow({budget}, {}, lent));
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text;
    ::_exit(!read(b, {budget}, text) && text == "b" ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
}

// Small files, compressed or not, need no place after they are opened; large ones only while they are read.
TEST(sources_hold_no_descriptor_between_reads_that_others_need) {
  const Directory directory;
  const auto budget = std::make_shared<FileBudget>(1);
  std::vector<std::unique_ptr<ByteSource>> sources(6);
  const size_t sizes[] = {10, ByteSource::kWhole, ByteSource::kWhole + 1};
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string path = directory.write(std::to_string(i), std::string(sizes[i % 3], 'a'));
    CHECK(!ByteSource::open(path, Compression::kAuto, sources[i], {}, {budget}));
    if (sizes[i % 3] <= ByteSource::kWhole) CHECK_EQ(sources[i]->whole() != nullptr, true);
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    std::vector<uint8_t> bytes(sizes[i % 3] + 1);
    size_t got = 0;
    CHECK(!sources[i]->read(bytes, got));
    CHECK_EQ(got, sizes[i % 3]);
  }
  CHECK_EQ(budget->most(), 1u);
}

}  // namespace
}  // namespace feedline
