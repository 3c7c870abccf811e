// What went wrong with data, as a value: the core does not throw on bad input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace feedline {

enum class FaultKind : uint8_t {
  kNone,
  kCorrupt,  // the bytes are damaged: framing, checksum, compression or protobuf
  kSchema,   // the bytes are sound, but are not what the caller's features say
  kIo,       // the operating system refused
};

struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::string what{};     // one sentence without a full stop; the values that disagree are in it
  std::string path{};     // empty when the bytes came from memory
  int64_t record = -1;    // counted from 0 in its file; -1 when the fault is not in one record
  int64_t offset = -1;    // of the record's header, in the uncompressed file; -1 when unknown
  std::string feature{};  // the feature's key, where one is to blame
  std::string payload{};  // how the record begins, when it was read but could not be decoded
  int os_error = 0;       // errno, for kIo

  explicit operator bool() const noexcept { return kind != FaultKind::kNone; }

  // Keeps enough of the record to tell what it is; thousands of faults may be held at once.
  void keep_start_of(std::span<const uint8_t> bytes) {
    constexpr size_t kKept = 1024;
    payload.assign(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kKept));
  }

  static Fault corrupt(std::string what) {
    return Fault{.kind = FaultKind::kCorrupt, .what = std::move(what)};
  }
  static Fault schema(std::string what, std::string feature) {
    return Fault{.kind = FaultKind::kSchema, .what = std::move(what), .feature = std::move(feature)};
  }
  static Fault io(std::string what, int os_error) {
    return Fault{.kind = FaultKind::kIo, .what = std::move(what), .os_error = os_error};
  }
};

}  // namespace feedline
