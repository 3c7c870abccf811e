#include "core/gather.h"

#include <cstring>
#include <new>

#include "core/prefetch.h"

namespace feedline {

namespace {

bool outside(int64_t index, int64_t count) noexcept {
  return static_cast<uint64_t>(index) >= static_cast<uint64_t>(count);
}

Flaw bad_index(size_t at, int64_t value) noexcept {
  return {Flaw::Kind::kIndex, static_cast<int64_t>(at), value};
}

// With the size known, memcpy is one or two moves.
template <size_t kBytes>
Flaw gather_small(const Rows& rows, std::span<const int64_t> indices, uint8_t* out) noexcept {
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t index = indices[i];
    if (outside(index, rows.count)) return bad_index(i, index);
    // Rows of no bytes may have no memory either; their indices are checked all the same.
    if constexpr (kBytes > 0) std::memcpy(out + i * kBytes, rows.data + index * rows.stride, kBytes);
  }
  return {};
}

Flaw gather_large(const Rows& rows, std::span<const int64_t> indices, uint8_t* out) noexcept {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (outside(indices[i], rows.count)) return bad_index(i, indices[i]);
  }
  const auto row = [&](size_t i) { return rows.data + indices[i] * rows.stride; };
  each_asked_for(
      indices.size(), rows_ahead(rows.bytes), [&](size_t i) { prefetch(row(i), rows.bytes); },
      [&](size_t i) { std::memcpy(out + i * rows.bytes, row(i), rows.bytes); });
  return {};
}

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

Flaw read_range(const Ranges& ranges, std::span<const int64_t> indices, size_t i, Range& range) noexcept {
  const int64_t index = indices[i];
  if (outside(index, static_cast<int64_t>(ranges.offsets.size()) - 1)) return bad_index(i, index);
  range = {ranges.offsets[static_cast<size_t>(index)], ranges.offsets[static_cast<size_t>(index) + 1]};
  if (range.begin < 0) return {Flaw::Kind::kOffset, index, range.begin};
  if (range.end < range.begin || range.end > ranges.values)
    return {Flaw::Kind::kOffset, index + 1, range.end};
  return {};
}

// Calls copy(begin, end, to) for each row; `offsets` says where each goes and how much fits there.
template <class Copy>
Flaw each_range(const Ranges& ranges, std::span<const int64_t> indices, std::span<const int64_t> offsets,
                Copy copy) {
  for (size_t i = 0; i < indices.size(); ++i) {
    Range range;
    if (Flaw flaw = read_range(ranges, indices, i, range)) return flaw;
    // The room was measured before: a row that has grown since must not run over its neighbour.
    if (range.end - range.begin != offsets[i + 1] - offsets[i])
      return {Flaw::Kind::kOffset, indices[i], range.end};
    copy(range.begin, range.end, offsets[i]);
  }
  return {};
}

size_t checked_size(int64_t count, size_t unit) {
  size_t size = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(count), unit, &size)) throw std::bad_alloc();
  return size;
}

}  // namespace

Flaw gather_rows(const Rows& rows, std::span<const int64_t> indices, uint8_t* out) noexcept {
  switch (rows.bytes) {
    case 0:
      return gather_small<0>(rows, indices, out);
    case 1:
      return gather_small<1>(rows, indices, out);
    case 2:
      return gather_small<2>(rows, indices, out);
    case 4:
      return gather_small<4>(rows, indices, out);
    case 8:
      return gather_small<8>(rows, indices, out);
    case 16:
      return gather_small<16>(rows, indices, out);
    default:
      return gather_large(rows, indices, out);
  }
}

Flaw gather_offsets(const Ranges& ranges, std::span<const int64_t> indices, Buffer& out) {
  out = Buffer((indices.size() + 1) * sizeof(int64_t));
  int64_t* offsets = out.as<int64_t>();
  int64_t total = 0;
  offsets[0] = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    Range range;
    if (Flaw flaw = read_range(ranges, indices, i, range)) return flaw;
    // A long row taken very often is more than any memory holds, and would wrap.
    if (__builtin_add_overflow(total, range.end - range.begin, &total)) throw std::bad_alloc();
    offsets[i + 1] = total;
  }
  return {};
}

Flaw gather_values(std::span<const uint8_t> data, size_t unit, const Ranges& ranges,
                   std::span<const int64_t> indices, std::span<const int64_t> offsets, Buffer& out) {
  out = Buffer(checked_size(offsets[indices.size()], unit));
  if (out.size() == 0) return {};
  return each_range(ranges, indices, offsets, [&](int64_t begin, int64_t end, int64_t to) {
    std::memcpy(out.data() + static_cast<size_t>(to) * unit, data.data() + static_cast<size_t>(begin) * unit,
                static_cast<size_t>(end - begin) * unit);
  });
}

Flaw gather_positions(const Ranges& ranges, std::span<const int64_t> indices,
                      std::span<const int64_t> offsets, Buffer& out) {
  out = Buffer(checked_size(offsets[indices.size()], sizeof(int64_t)));
  return each_range(ranges, indices, offsets, [&](int64_t begin, int64_t end, int64_t to) {
    for (int64_t* at = out.as<int64_t>() + to; begin < end; ++begin) *at++ = begin;
  });
}

Buffer join_offsets(std::span<const std::span<const int64_t>> parts) {
  size_t rows = 0;
  for (const auto& part : parts) rows += part.empty() ? 0 : part.size() - 1;
  Buffer joined((rows + 1) * sizeof(int64_t));
  int64_t* at = joined.as<int64_t>();
  *at = 0;
  for (const auto& part : parts) {
    if (part.empty()) continue;
    // Unsigned, because offsets that nobody has checked may wrap; the reader of the result checks them.
    const uint64_t shift = static_cast<uint64_t>(*at) - static_cast<uint64_t>(part[0]);
    for (const int64_t offset : part.subspan(1))
      *++at = static_cast<int64_t>(static_cast<uint64_t>(offset) + shift);
  }
  return joined;
}

int64_t first_fall(std::span<const int64_t> offsets) noexcept {
  // Whole stretches first, without a branch per offset, so that the compiler can compare several at once.
  constexpr size_t kStretch = 256;
  size_t i = 1;
  for (; i + kStretch <= offsets.size(); i += kStretch) {
    bool falls = false;
    for (size_t j = i; j < i + kStretch; ++j) falls |= offsets[j] < offsets[j - 1];
    if (falls) break;
  }
  for (; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace feedline
