// Files of Examples with one feature, "id", and the schema that reads them.
#pragma once

#include <cstdint>
#include <memory>

#include "core/schema.h"
#include "tests/samples.h"

namespace feedline::samples {

inline std::shared_ptr<const Schema> schema_of_ids() {
  auto schema = std::make_shared<Schema>();
  Feature id;
  id.name = id.key = "id";
  id.item_size = sizeof(int64_t);
  schema->features = {id};
  return schema;
}

inline Bytes rows(int64_t first, int64_t count) {
  Bytes bytes;
  for (int64_t n = first; n < first + count; ++n) bytes += framed(example(entry("id", ints({n}))));
  return bytes;
}

}  // namespace feedline::samples
