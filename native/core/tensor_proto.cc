#include "core/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "core/wire.h"

namespace feedline {

namespace {

using wire::Cursor;

constexpr size_t kMaxDims = 254;  // TensorFlow's own limit
// How many elements a byte of proto may stand for, and how many a tiny proto may hold in any case.
constexpr uint64_t kElementsPerByte = 64;
constexpr uint64_t kSmallTensor = 4096;

// The field numbers of TensorProto.
enum Field : uint32_t {
  kDtype = 1,
  kShape = 2,
  kContent = 4,
  kFloatVal = 5,
  kDoubleVal = 6,
  kIntVal = 7,
  kStringVal = 8,
  kScomplexVal = 9,
  kInt64Val = 10,
  kBoolVal = 11,
  kDcomplexVal = 12,
  kHalfVal = 13,
  kUint32Val = 16,
  kUint64Val = 17,
  kFloat8Val = 18,
};

struct TypeRow {
  int32_t dtype;
  const char* name;
  uint8_t itemsize;
  Field field;      // where its values are when they are not in tensor_content
  wire::Type wire;  // how one value of that field is written
  uint8_t parts;    // values per element: complex numbers are written as two
};

constexpr TypeRow kTypes[] = {
    {kFloat32, "float32", 4, kFloatVal, wire::kFixed32, 1},
    {kFloat64, "float64", 8, kDoubleVal, wire::kFixed64, 1},
    {kInt32, "int32", 4, kIntVal, wire::kVarint, 1},
    {kUint8, "uint8", 1, kIntVal, wire::kVarint, 1},
    {kInt16, "int16", 2, kIntVal, wire::kVarint, 1},
    {kInt8, "int8", 1, kIntVal, wire::kVarint, 1},
    {kString, "string", 0, kStringVal, wire::kDelimited, 1},
    {kComplex64, "complex64", 8, kScomplexVal, wire::kFixed32, 2},
    {kInt64, "int64", 8, kInt64Val, wire::kVarint, 1},
    {kBool, "bool", 1, kBoolVal, wire::kVarint, 1},
    {kBfloat16, "bfloat16", 2, kHalfVal, wire::kVarint, 1},
    {kUint16, "uint16", 2, kIntVal, wire::kVarint, 1},
    {kComplex128, "complex128", 16, kDcomplexVal, wire::kFixed64, 2},
    {kFloat16, "float16", 2, kHalfVal, wire::kVarint, 1},
    {kUint32, "uint32", 4, kUint32Val, wire::kVarint, 1},
    {kUint64, "uint64", 8, kUint64Val, wire::kVarint, 1},
    {kFloat8E5m2, "float8_e5m2", 1, kFloat8Val, wire::kDelimited, 1},
    {kFloat8E4m3fn, "float8_e4m3fn", 1, kFloat8Val, wire::kDelimited, 1},
    {kFloat8E4m3fnuz, "float8_e4m3fnuz", 1, kFloat8Val, wire::kDelimited, 1},
    {kFloat8E4m3b11fnuz, "float8_e4m3b11fnuz", 1, kFloat8Val, wire::kDelimited, 1},
    {kFloat8E5m2fnuz, "float8_e5m2fnuz", 1, kFloat8Val, wire::kDelimited, 1},
};

const TypeRow* row_of(int32_t dtype) noexcept {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

Fault damaged(const char* where) {
  return Fault::corrupt(std::string("the TensorProto is damaged: ") + where);
}

bool read_dim(Cursor dim, int64_t& size) noexcept {
  size = 0;
  while (!dim.done()) {
    uint32_t tag = 0;
    if (!wire::read_tag(dim, tag)) return false;
    if (tag == wire::tag(1, wire::kVarint)) {
      uint64_t value = 0;
      if (!wire::read_varint(dim, value)) return false;
      size = static_cast<int64_t>(value);
    } else if (!wire::skip_field(dim, tag)) {
      return false;
    }
  }
  return true;
}

Fault read_shape(Cursor shape, std::vector<int64_t>& dims) {
  while (!shape.done()) {
    uint32_t tag = 0;
    if (!wire::read_tag(shape, tag)) return damaged("its shape ends inside a field");
    if (tag == wire::tag(2, wire::kDelimited)) {
      Cursor dim;
      int64_t size = 0;
      if (!wire::read_delimited(shape, dim) || !read_dim(dim, size)) {
        return damaged("its shape ends inside a dimension");
      }
      if (size < 0) return damaged("its shape has a negative dimension");
      if (dims.size() == kMaxDims) return damaged("its shape has more than 254 dimensions");
      dims.push_back(size);
    } else if (tag == wire::tag(3, wire::kVarint)) {
      uint64_t unknown = 0;
      if (!wire::read_varint(shape, unknown)) return damaged("its shape ends inside a field");
      if (unknown != 0) return damaged("its rank is unknown");
    } else if (!wire::skip_field(shape, tag)) {
      return damaged("its shape ends inside a field");
    }
  }
  return {};
}

// False when the bytes of the tensor would not fit in an int64. A size of 0 does not excuse the others:
// NumPy refuses such a shape too.
bool count_elements(const std::vector<int64_t>& dims, size_t itemsize, uint64_t& elements) noexcept {
  uint64_t most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / std::max<size_t>(itemsize, 1);
  bool none = false;
  elements = 1;
  for (const int64_t dim : dims) {
    if (dim == 0) {
      none = true;
      continue;
    }
    most /= static_cast<uint64_t>(dim);
    if (most == 0) return false;
    elements *= static_cast<uint64_t>(dim);
  }
  if (none) elements = 0;
  return true;
}

// Calls take(bits) with each value of a numeric field, packed or not, until it returns false. The bits of a
// fixed field are its memory; those of a varint are the number.
template <class Take>
bool each_value(std::span<const uint8_t> proto, const TypeRow& type, Take take) noexcept {
  const auto read_one = [&type](Cursor& in, uint64_t& bits) noexcept {
    if (type.wire == wire::kVarint) return wire::read_varint(in, bits);
    if (type.wire == wire::kFixed64) return wire::read_fixed(in, bits);
    uint32_t word = 0;
    const bool read = wire::read_fixed(in, word);
    bits = word;
    return read;
  };
  Cursor in(proto.data(), proto.size());
  while (!in.done()) {
    uint32_t tag = 0;
    uint64_t bits = 0;
    if (!wire::read_tag(in, tag)) return false;
    if (tag >> 3 != type.field) {
      if (!wire::skip_field(in, tag)) return false;
    } else if (tag == wire::tag(type.field, wire::kDelimited)) {
      Cursor packed;
      if (!wire::read_delimited(in, packed)) return false;
      while (!packed.done()) {
        if (!read_one(packed, bits)) return false;
        if (!take(bits)) return true;
      }
    } else if (tag == wire::tag(type.field, type.wire)) {
      if (!read_one(in, bits)) return false;
      if (!take(bits)) return true;
    } else if (!wire::skip_field(in, tag)) {
      return false;
    }
  }
  return true;
}

// The strings of a tensor_content: all lengths as varints, then all bytes.
bool split_content(std::span<const uint8_t> content, uint64_t elements, std::vector<std::string_view>& out) {
  if (elements > content.size()) return false;  // each length takes a byte at least
  Cursor lengths(content.data(), content.size());
  uint64_t total = 0;
  for (uint64_t i = 0; i < elements; ++i) {
    uint64_t length = 0;
    if (!wire::read_varint(lengths, length) || length > content.size()) return false;
    total += length;
    out.emplace_back(static_cast<const char*>(nullptr), static_cast<size_t>(length));
  }
  if (total != lengths.left()) return false;
  const char* at = reinterpret_cast<const char*>(lengths.at);
  for (std::string_view& string : out) {
    string = {at, string.size()};
    at += string.size();
  }
  return true;
}

std::string disagree(uint64_t elements, const TypeRow& type, size_t bytes) {
  return "the TensorProto is damaged: " + std::to_string(elements) + " elements of " + type.name +
         " cannot be in a tensor_content of " + std::to_string(bytes) + " bytes";
}

}  // namespace

size_t tensor_itemsize(int32_t dtype) noexcept {
  const TypeRow* row = row_of(dtype);
  return row == nullptr ? 0 : row->itemsize;
}

const char* dtype_name(int32_t dtype) noexcept {
  const TypeRow* row = row_of(dtype);
  return row == nullptr ? nullptr : row->name;
}

int32_t dtype_number(std::string_view name) noexcept {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.dtype;
  }
  return 0;
}

Fault parse_tensor(std::span<const uint8_t> proto, TensorView& out, uint64_t expected_elements) {
  out.dtype = 0;
  out.dims.clear();
  out.elements = 0;
  out.strings.clear();
  out.proto = proto;
  out.content = {};
  Cursor in(proto.data(), proto.size());
  while (!in.done()) {
    uint32_t tag = 0;
    uint64_t number = 0;
    Cursor inner;
    if (!wire::read_tag(in, tag)) return damaged("a field has no tag");
    switch (tag) {
      case wire::tag(kDtype, wire::kVarint):
        if (!wire::read_varint(in, number)) return damaged("its dtype is cut off");
        out.dtype = static_cast<int32_t>(number);
        break;
      case wire::tag(kShape, wire::kDelimited):
        if (!wire::read_delimited(in, inner)) return damaged("its shape is cut off");
        if (Fault fault = read_shape(inner, out.dims)) return fault;
        break;
      case wire::tag(kContent, wire::kDelimited):
        if (!wire::read_delimited(in, inner)) return damaged("its tensor_content is cut off");
        out.content = {inner.at, inner.left()};
        break;
      case wire::tag(kStringVal, wire::kDelimited):
        if (!wire::read_delimited(in, inner)) return damaged("its string_val is cut off");
        out.strings.push_back(inner.text());
        break;
      default:
        if (!wire::skip_field(in, tag)) return damaged("it ends inside a field");
    }
  }

  const TypeRow* type = row_of(out.dtype);
  if (type == nullptr) {
    if (out.dtype == 0) return damaged("it has no dtype");
    return Fault::schema("a TensorProto of DataType " + std::to_string(out.dtype) + " has no NumPy dtype",
                         "");
  }
  if (!count_elements(out.dims, type->itemsize, out.elements)) {
    return damaged("its shape has more elements than memory has addresses");
  }
  if (type->dtype != kString) out.strings.clear();
  if (!out.content.empty()) {
    if (type->dtype == kString) {
      out.strings.clear();
      if (!split_content(out.content, out.elements, out.strings)) {
        return Fault::corrupt(disagree(out.elements, *type, out.content.size()));
      }
    } else if (out.content.size() != out.size_bytes()) {
      return Fault::corrupt(disagree(out.elements, *type, out.content.size()));
    }
    return {};
  }

  if (out.elements > std::max({expected_elements, kElementsPerByte * proto.size(), kSmallTensor})) {
    return Fault::corrupt("the TensorProto is damaged: its shape claims " + std::to_string(out.elements) +
                          " elements, and the proto has " + std::to_string(proto.size()) + " bytes");
  }
  if (!out.strings.empty() && out.elements > out.strings.size()) {
    // The last string stands for all that are left out, and may be long.
    const uint64_t repeats = out.elements - out.strings.size();
    if (repeats * out.strings.back().size() > kElementsPerByte * proto.size()) {
      return Fault::corrupt("the TensorProto is damaged: its last string of " +
                            std::to_string(out.strings.back().size()) + " bytes stands for " +
                            std::to_string(repeats) + " more");
    }
  }
  if (type->wire != wire::kDelimited && !each_value(proto, *type, [](uint64_t) noexcept { return true; })) {
    return damaged("its values end inside one");
  }
  return {};
}

void fill(const TensorView& tensor, uint8_t* out) noexcept {
  const TypeRow* type = row_of(tensor.dtype);
  const size_t size = tensor.size_bytes();
  if (type == nullptr || size == 0) return;
  if (!tensor.content.empty()) {
    std::memcpy(out, tensor.content.data(), size);
    // A bool that is neither 0 nor 1 is undefined in C++ and odd in NumPy.
    if (type->dtype == kBool) std::transform(out, out + size, out, [](uint8_t byte) { return byte != 0; });
    return;
  }

  size_t done = 0;
  if (type->wire == wire::kDelimited) {  // float8_val: one bytes field, of which the last one counts
    std::span<const uint8_t> bytes;
    Cursor in(tensor.proto.data(), tensor.proto.size());
    uint32_t tag = 0;
    while (!in.done() && wire::read_tag(in, tag)) {
      Cursor inner;
      if (tag != wire::tag(type->field, wire::kDelimited)) {
        if (!wire::skip_field(in, tag)) break;
      } else if (wire::read_delimited(in, inner)) {
        bytes = {inner.at, inner.left()};
      }
    }
    done = std::min(bytes.size(), size);
    if (done != 0) std::memcpy(out, bytes.data(), done);
  } else {
    const size_t part = type->itemsize / type->parts;
    each_value(tensor.proto, *type, [&](uint64_t bits) noexcept {
      if (done == size) return false;
      if (type->dtype == kBool) bits = bits != 0;
      std::memcpy(out + done, &bits, part);  // little-endian: the low bytes come first
      done += part;
      return true;
    });
    done -= done % type->itemsize;  // half a complex number is none
  }
  if (done == 0) {
    std::memset(out, 0, size);
    return;
  }
  for (; done < size; done += type->itemsize) {
    std::memcpy(out + done, out + done - type->itemsize, type->itemsize);
  }
}

}  // namespace feedline
