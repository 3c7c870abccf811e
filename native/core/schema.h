// What the caller expects of each Example: the compiled form of `features`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace feedline {

// The field numbers of tf.train.Feature's oneof; kNone is a Feature in which none is set.
enum class ValueKind : uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

enum class Layout : uint8_t {
  kFixed,   // `count` values a row
  kVarLen,  // any number of values a row; in a feature list, of each step
  kSteps,   // any number of steps a row, of `count` values each
  kRaw,     // one bytes value a row: the array itself, `count * item_size` bytes
  kTensor,  // one bytes value a row: a serialized TensorProto
};

struct Feature {
  std::string name;  // in the result and in messages
  std::string key;   // in the Example
  Layout layout = Layout::kFixed;
  ValueKind kind = ValueKind::kInt64;
  size_t count = 1;
  bool required = true;  // a row without it is an error, unless there is a default

  // Values of a row that lacks the feature: kFixed only. Numbers as they lie in the column; strings apart.
  bool has_default = false;
  std::vector<uint8_t> default_numbers;
  std::vector<std::string> default_strings;

  size_t item_size = 0;       // of a number; 0 for strings
  int32_t tensor_dtype = 0;   // kTensor: TensorFlow's DataType
  std::vector<int64_t> dims;  // kTensor: -1 where any size is good
};

struct Schema {
  std::vector<Feature> features;  // of an Example, or of a SequenceExample's context
  std::vector<Feature> lists;     // of a SequenceExample's feature lists: kSteps or kVarLen
  bool whole = false;             // records as they are: one feature, of strings, which is the record itself
};

}  // namespace feedline
