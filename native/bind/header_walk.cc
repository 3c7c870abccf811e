#include "core/header_walk.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "bind/faults.h"

namespace feedline::bind {

namespace {

constexpr int64_t kWords = 5;  // of an identity

nb::object identities(const std::vector<WalkedFile>& walked) {
  Buffer words(walked.size() * kWords * sizeof(uint64_t));
  uint64_t* out = words.as<uint64_t>();
  for (const WalkedFile& file : walked) {
    const FileIdentity& it = file.identity;
    for (const uint64_t word : {it.size, it.modified, it.ends, it.changed, it.inode}) *out++ = word;
  }
  const int64_t shape[2] = {static_cast<int64_t>(walked.size()), kWords};
  return give(std::move(words), dtype_of<uint64_t>(), shape);
}

nb::tuple walk(nb::list paths, nb::object progress) {
  std::vector<std::string> names;
  for (const nb::handle path : paths) {
    const auto bytes = nb::cast<nb::bytes>(path);
    names.emplace_back(bytes.c_str(), bytes.size());
  }
  // Called without Python's lock; an error of `progress` ends the walk, as Ctrl-C does.
  const auto tick = [&](uint64_t bytes) {
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) return false;
    if (progress.is_none()) return true;
    PyObject* const answer =
        PyObject_CallFunction(progress.ptr(), "K", static_cast<unsigned long long>(bytes));
    Py_XDECREF(answer);
    return answer != nullptr;
  };
  std::vector<WalkedFile> walked;
  Buffer starts, offsets;
  {
    nb::gil_scoped_release release;
    bool is_stopped = false;
    walked = walk_headers(names, [&](uint64_t bytes) {
      is_stopped = is_stopped || !tick(bytes);
      return !is_stopped;
    });
    size_t total = 0;
    starts = Buffer((walked.size() + 1) * sizeof(int64_t));
    for (size_t i = 0; i < walked.size(); ++i) {
      starts.as<int64_t>()[i] = static_cast<int64_t>(total);
      if (walked[i].sound) total += walked[i].offsets.size();
    }
    starts.as<int64_t>()[walked.size()] = static_cast<int64_t>(total);
    offsets = Buffer(total * sizeof(uint64_t));
    uint64_t* out = offsets.as<uint64_t>();
    for (const WalkedFile& file : walked)
      if (file.sound) out = std::copy(file.offsets.begin(), file.offsets.end(), out);
  }
  raise_signalled();
  return nb::make_tuple(identities(walked), give<int64_t>(std::move(starts)),
                        give<uint64_t>(std::move(offsets)));
}

}  // namespace

void bind_header_walk(nb::module_& module) {
  module.def(
      "walk_headers", &walk, nb::arg("paths"), nb::arg("progress").none(),
      "Of plain files: (size, mtime, CRC32C of the ends, ctime, inode) of each; where its offsets begin; and "
      "the offsets of all, those of each file with the end of its last record. None for a file that is not "
      "plain and sound.");
}

}  // namespace feedline::bind
