#include "core/utf8.h"

#include <cstdint>

namespace feedline {

bool is_utf8(std::string_view text) noexcept {
  const auto* at = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = at + text.size();
  while (at != end) {
    const uint8_t lead = *at++;
    if (lead < 0x80) continue;
    // The first continuation byte has a narrower range after some leads: no overlong forms, no surrogates,
    // nothing above U+10FFFF.
    int more = 0;
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
      more = 1;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      more = 2;
      if (lead == 0xe0) low = 0xa0;
      if (lead == 0xed) high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      more = 3;
      if (lead == 0xf0) low = 0x90;
      if (lead == 0xf4) high = 0x8f;
    } else {
      return false;
    }
    for (; more > 0; --more) {
      if (at == end || *at < low || *at > high) return false;
      ++at;
      low = 0x80;
      high = 0xbf;
    }
  }
  return true;
}

}  // namespace feedline
