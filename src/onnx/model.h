// An ONNX model as data, in its file's structure. Reader, writer, importer and exporter share it.
// Names of types and fields come from ONNX's own description (onnx.proto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mantissa::onnx {

// TensorProto.DataType, with the file's numbers.
enum class ElementType : uint8_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
  kUint4 = 21,
  kInt4 = 22,
};

// Bits of an element in raw data; 0 for strings and unknown types.
int element_bits(ElementType type);
// "float", "uint8", ...: the names of onnx.proto in lower case.
const char* element_name(ElementType type);

// Numbers as raw_data has them: little-endian, row-major; 4-bit ones two a byte, the first in the
// low half. They may be unaligned. A view: `owner` keeps the bytes alive, and is null where
// somebody else does.
struct TensorData {
  std::string name;
  ElementType type = ElementType::kUndefined;
  std::vector<int64_t> dims;  // empty: a scalar
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

struct GraphData;

using AttributeData = std::variant<std::monostate, float, int64_t, std::string, TensorData,
                                   std::shared_ptr<const GraphData>, std::vector<float>,
                                   std::vector<int64_t>, std::vector<std::string>>;

// AttributeProto.AttributeType, with the file's numbers.
enum class AttributeType : uint8_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
};

struct NodeAttribute {
  std::string name;
  AttributeData value;
  std::string refers_to = {};  // in a function's body: the attribute of the call that stands here
};

struct NodeData {
  std::string name;  // may be empty
  std::string op_type;
  std::string domain;               // "" is ONNX's own
  std::vector<std::string> inputs;  // "": left out
  std::vector<std::string> outputs;
  std::vector<NodeAttribute> attributes;
  std::string overload = {};  // of a function, if several share a name
  int64_t opset = 0;          // of the function that it came from; 0: the model's
};

// One dimension of a value: a number, or a name ("N"), or unknown (-1 and no name).
struct Dimension {
  int64_t size = -1;
  std::string name;
};

enum class ValueKind : uint8_t { kTensor, kSequence, kOptional };

struct ValueData {
  std::string name;
  ElementType type = ElementType::kUndefined;
  bool has_shape = false;
  std::vector<Dimension> dims;
  ValueKind kind = ValueKind::kTensor;
};

struct GraphData {
  std::string name;
  std::vector<NodeData> nodes;
  std::vector<TensorData> initialisers;
  std::vector<ValueData> inputs;  // may contain initialisers, in old files
  std::vector<ValueData> outputs;
  std::vector<ValueData> values;  // value_info
};

struct ModelData {
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;  // by domain; "ai.onnx" is ""
  std::string producer_name;
  std::string producer_version;
  std::map<std::string, std::string> metadata;
  GraphData graph;
};

}  // namespace mantissa::onnx
