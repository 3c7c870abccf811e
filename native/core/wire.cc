#include "core/wire.h"

namespace feedline::wire::detail {

namespace {
// Groups nest; protobuf's own parsers stop at this depth too.
constexpr int kMaxDepth = 100;
}  // namespace

bool skip_field(Cursor& in, uint32_t tag, int depth) noexcept {
  uint64_t ignored = 0;
  Cursor inner;
  switch (tag & 7) {
    case kVarint:
      return read_varint(in, ignored);
    case kFixed64:
      return read_fixed<uint64_t>(in, ignored);
    case kDelimited:
      return read_delimited(in, inner);
    case kFixed32: {
      uint32_t word = 0;
      return read_fixed<uint32_t>(in, word);
    }
    case kGroup: {
      if (depth >= kMaxDepth) return false;
      uint32_t next = 0;
      while (read_tag(in, next)) {
        if ((next & 7) == kEndGroup) return next >> 3 == tag >> 3;
        if (!skip_field(in, next, depth + 1)) return false;
      }
      return false;
    }
    default:
      return false;
  }
}

}  // namespace feedline::wire::detail
