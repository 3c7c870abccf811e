// Whether bytes are valid UTF-8, as protobuf demands of strings.
#pragma once

#include <string_view>

namespace feedline {

bool is_utf8(std::string_view text) noexcept;

}  // namespace feedline
