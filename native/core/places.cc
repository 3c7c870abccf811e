#include "core/places.h"

namespace feedline {

namespace {

bool is_small(int64_t number) noexcept { return number >= 0 && number <= int64_t{UINT32_MAX}; }

}  // namespace

Places::Place* Places::grow(size_t count) {
  const size_t before = places_.size();
  places_.resize(before + count * sizeof(Place));
  return reinterpret_cast<Place*>(places_.data() + before);
}

Flaw Places::add(std::span<const int64_t> sources, std::span<const int64_t> rows) {
  const size_t before = places_.size();
  Place* const added = grow(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t source = sources[i], row = rows[i];
    if (!is_small(source) || !is_small(row)) {
      places_.resize(before);
      return {is_small(source) ? Flaw::Kind::kIndex : Flaw::Kind::kSource, static_cast<int64_t>(i),
              is_small(source) ? row : source};
    }
    added[i] = {static_cast<uint32_t>(source), static_cast<uint32_t>(row)};
  }
  return {};
}

Flaw Places::add_all(int64_t source, int64_t rows) {
  if (!is_small(source)) return {Flaw::Kind::kSource, 0, source};
  if (!is_small(rows)) return {Flaw::Kind::kIndex, 0, rows};
  Place* const added = grow(static_cast<size_t>(rows));
  for (uint32_t row = 0; row < static_cast<uint32_t>(rows); ++row)
    added[row] = {static_cast<uint32_t>(source), row};
  return {};
}

Flaw Places::find(std::span<const int64_t> places, int64_t* sources, int64_t* rows) const noexcept {
  const auto* const known = places_.as<Place>();
  const size_t count = size();
  for (size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<uint64_t>(places[i]);
    if (place >= count) return {Flaw::Kind::kIndex, static_cast<int64_t>(i), static_cast<int64_t>(place)};
    sources[i] = known[place].source;
    rows[i] = known[place].row;
  }
  return {};
}

}  // namespace feedline
