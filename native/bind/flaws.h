// Flaws of the core -> IndexError and ValueError.
#pragma once

#include <cstdint>
#include <optional>

#include "core/gather.h"

namespace feedline::bind {

// `rows`: of what the indices point into, where that is one thing.
void raise_if(const Flaw& flaw, std::optional<int64_t> rows = std::nullopt);

}  // namespace feedline::bind
