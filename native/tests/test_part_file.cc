#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/framing.h"
#include "core/part_file.h"
#include "tests/check.h"

namespace feedline {

namespace {

const PartFile::Interrupted kNever = [] { return false; };

// A directory with a part in it, gone at the end of the test.
struct Place {
  Place() {
    std::string name = "/tmp/part_file_XXXXXX";
    directory = mkdtemp(name.data());
    path = directory + "/part";
    descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  }
  ~Place() {
    close(descriptor);
    std::filesystem::remove_all(directory);
  }

  std::string bytes() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string directory, path;
  int descriptor;
};

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Fault append(PartFile& part, const std::vector<std::string>& records) {
  std::string payloads;
  std::vector<uint64_t> offsets{0};
  for (const std::string& record : records) {
    payloads += record;
    offsets.push_back(payloads.size());
  }
  return part.append(bytes_of(payloads), offsets, kNever);
}

std::string framed(const std::vector<std::string>& records) {
  std::string out;
  for (const std::string& record : records) {
    uint8_t header[kHeaderSize];
    uint8_t footer[kFooterSize];
    write_frame_around(bytes_of(record), header, footer);
    out.append(reinterpret_cast<char*>(header), kHeaderSize);
    out += record;
    out.append(reinterpret_cast<char*>(footer), kFooterSize);
  }
  return out;
}

}  // namespace

TEST(records_are_framed_one_after_another_whatever_their_size) {
  const Place place;
  PartFile part(place.descriptor, place.path);
  const std::vector<std::string> records{"", "a", std::string(3'000'000, 'b'), std::string(600'000, 'c'),
                                         "d"};
  CHECK(!append(part, records));
  CHECK(!append(part, {}));
  CHECK(!append(part, std::vector<std::string>(5000, std::string(300, 'e'))));
  CHECK_EQ(place.bytes() == framed(records) + framed(std::vector<std::string>(5000, std::string(300, 'e'))),
           true);
  CHECK_EQ(part.records(), 5005u);
  CHECK_EQ(part.size(), place.bytes().size());
}

TEST(offsets_that_lie_are_refused) {
  const Place place;
  PartFile part(place.descriptor, place.path);
  const std::string payloads = "abc";
  for (const auto& offsets : std::vector<std::vector<uint64_t>>{{}, {0, 4}, {2, 1}, {0, ~0ull}}) {
    CHECK_EQ(part.append(bytes_of(payloads), offsets, kNever).kind, FaultKind::kSchema);
  }
  CHECK_EQ(place.bytes(), "");
}

TEST(a_file_whose_directory_was_renamed_or_that_was_replaced_takes_nothing_more) {
  Place place;
  PartFile part(place.descriptor, place.path);
  CHECK(!append(part, {"one"}));
  const std::string other = place.directory + "-taken";
  std::filesystem::rename(place.directory, other);
  CHECK_EQ(append(part, {"two"}).os_error, ESTALE);
  std::filesystem::create_directory(place.directory);
  CHECK_EQ(append(part, {"two"}).os_error, ESTALE);
  std::ofstream(place.path) << framed({"one"});
  CHECK_EQ(append(part, {"two"}).os_error, ESTALE);
  std::filesystem::remove_all(place.directory);
  std::filesystem::rename(other, place.directory);
  CHECK(!append(part, {"two"}));
  CHECK_EQ(place.bytes(), framed({"one", "two"}));
}

TEST(a_file_that_another_one_wrote_to_is_noticed) {
  const Place place;
  PartFile part(place.descriptor, place.path);
  CHECK(!append(part, {"one"}));
  std::ofstream(place.path, std::ios::app) << "x";
  const Fault fault = append(part, {"two"});
  CHECK_EQ(fault.os_error, EIO);
  CHECK_EQ(fault.what, "it holds 20 bytes, and 19 were written");
}

TEST(what_cannot_be_written_whole_is_not_written_at_all) {
  const Place place;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{2'000'000, 2'000'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    PartFile part(place.descriptor, place.path);
    const bool is_right =
        !append(part, {"one"}) &&
        append(part, std::vector<std::string>(10, std::string(400'000, 'x'))).os_error == EFBIG &&
        part.size() == 19 && part.records() == 1 && !append(part, {"two"});
    _exit(is_right ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK_EQ(place.bytes(), framed({"one", "two"}));
}

TEST(an_append_waits_for_the_lock_of_the_file) {
  const Place place;
  PartFile part(place.descriptor, place.path);
  const int other = open(place.path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK_EQ(flock(other, LOCK_EX), 0);
  const pid_t child = fork();
  if (child == 0) _exit(append(part, {"one"}) ? 1 : 0);
  usleep(50'000);
  CHECK_EQ(waitpid(child, nullptr, WNOHANG), 0);
  CHECK_EQ(place.bytes(), "");
  flock(other, LOCK_UN);
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK_EQ(place.bytes(), framed({"one"}));
  close(other);
}

TEST(a_signal_ends_the_wait_for_the_lock_if_its_handler_says_so) {
  const Place place;
  PartFile part(place.descriptor, place.path);
  const int other = open(place.path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK_EQ(flock(other, LOCK_EX), 0);
  struct sigaction action{};
  action.sa_handler = [](int) {};
  CHECK_EQ(sigaction(SIGALRM, &action, nullptr), 0);
  ualarm(20'000, 20'000);
  int asked = 0;
  const std::array<uint64_t, 2> offsets{0, 0};
  const Fault fault = part.append({}, offsets, [&] { return ++asked == 3; });
  ualarm(0, 0);
  CHECK_EQ(fault.os_error, ECANCELED);
  CHECK_EQ(asked, 3);
  close(other);
}

}  // namespace feedline
