#include "onnx/model.h"

namespace mantissa::onnx {
namespace {

struct ElementInfo {
  ElementType type;
  int bits;
  const char* name;
};

constexpr ElementInfo kElements[] = {
    {ElementType::kFloat, 32, "float"},   {ElementType::kUint8, 8, "uint8"},
    {ElementType::kInt8, 8, "int8"},      {ElementType::kUint16, 16, "uint16"},
    {ElementType::kInt16, 16, "int16"},   {ElementType::kInt32, 32, "int32"},
    {ElementType::kInt64, 64, "int64"},   {ElementType::kString, 0, "string"},
    {ElementType::kBool, 8, "bool"},      {ElementType::kFloat16, 16, "float16"},
    {ElementType::kDouble, 64, "double"}, {ElementType::kUint32, 32, "uint32"},
    {ElementType::kUint64, 64, "uint64"}, {ElementType::kBfloat16, 16, "bfloat16"},
    {ElementType::kUint4, 4, "uint4"},    {ElementType::kInt4, 4, "int4"},
};

const ElementInfo* find(ElementType type) {
  for (const ElementInfo& info : kElements) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

}  // namespace

int element_bits(ElementType type) {
  const ElementInfo* info = find(type);
  return info == nullptr ? 0 : info->bits;
}

const char* element_name(ElementType type) {
  const ElementInfo* info = find(type);
  return info == nullptr ? "undefined" : info->name;
}

}  // namespace mantissa::onnx
