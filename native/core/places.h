// Where rows lie that came one after another: each has a place, and the place a source and a row of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "core/gather.h"

namespace feedline {

class Places {
 public:
  size_t size() const noexcept { return places_.size() / sizeof(Place); }

  // Each gives the next places. A number that is negative, or of more than 32 bits, is a flaw, and none is
  // given. Throws std::bad_alloc.
  Flaw add(std::span<const int64_t> sources, std::span<const int64_t> rows);
  // Rows 0 to `rows` - 1 of one source.
  Flaw add_all(int64_t source, int64_t rows);

  // The sources and rows of places; both outputs have room for all.
  Flaw find(std::span<const int64_t> places, int64_t* sources, int64_t* rows) const noexcept;

 private:
  struct Place {
    uint32_t source;
    uint32_t row;
  };

  Place* grow(size_t count);

  Buffer places_;
};

}  // namespace feedline
