// Records of any bytes, the length of each in its first byte, are counted or called malformed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/survey.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  feedline::Survey survey;
  uint64_t good = 0;
  while (size > 0) {
    const size_t length = std::min<size_t>(data[0], size - 1);
    const std::vector<uint8_t> record(data + 1, data + 1 + length);
    if (!survey.add(record)) ++good;
    data += 1 + length;
    size -= 1 + length;
  }
  if (survey.records() != survey.malformed() + good) std::abort();
  for (const auto* keys : {&survey.context(), &survey.feature_lists()}) {
    for (const feedline::KeySurvey& key : *keys) {
      if (key.records == 0 || key.records > good) std::abort();
    }
  }
  return 0;
}
