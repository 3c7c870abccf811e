#include "bind/flaws.h"

#include <nanobind/nanobind.h>

#include <string>

namespace feedline::bind {

namespace nb = nanobind;

void raise_if(const Flaw& flaw, std::optional<int64_t> rows) {
  const std::string value = std::to_string(flaw.value);
  const std::string at = std::to_string(flaw.at);
  if (flaw.kind == Flaw::Kind::kIndex) {
    const std::string where = rows ? "outside the " + std::to_string(*rows) + " rows" : "not in its source";
    throw nb::index_error(("index " + value + " at position " + at + " is " + where).c_str());
  }
  if (flaw.kind == Flaw::Kind::kSource) {
    throw nb::index_error(("source " + value + " at position " + at + " is not there").c_str());
  }
  if (flaw.kind == Flaw::Kind::kOffset) {
    throw nb::value_error(
        ("offset " + value + " at position " + at + " falls or runs past the values").c_str());
  }
}

}  // namespace feedline::bind
