// Flaws of the core -> IndexError and ValueError.
#pragma once

#include <cstdint>

#include "core/gather.h"

namespace feedline::bind {

// `rows`: of what the indices point into.
void raise_if(const Flaw& flaw, int64_t rows);

}  // namespace feedline::bind
