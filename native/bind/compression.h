// The names of compressions, as Python gives them; they are checked there.
#pragma once

#include <stdexcept>
#include <string>

#include "core/source.h"

namespace feedline::bind {

inline Compression compression_from(const std::string& name) {
  if (name == "auto") return Compression::kAuto;
  if (name == "none") return Compression::kNone;
  if (name == "gzip") return Compression::kGzip;
  if (name == "zlib") return Compression::kZlib;
  throw std::invalid_argument("unknown compression: " + name);
}

inline const char* compression_name(Compression compression) {
  switch (compression) {
    case Compression::kAuto:
      return "auto";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZlib:
      return "zlib";
    case Compression::kNone:
      break;
  }
  return "none";
}

}  // namespace feedline::bind
