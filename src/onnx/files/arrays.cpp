#include "onnx/files/arrays.h"

#include <memory>
#include <utility>

#include "onnx/files/read_context.h"

namespace mantissa::onnx {
namespace {

struct Pair {
  NpyType array;
  ElementType tensor;
};

constexpr Pair kTypes[] = {
    {NpyType::kBool, ElementType::kBool},     {NpyType::kInt8, ElementType::kInt8},
    {NpyType::kInt16, ElementType::kInt16},   {NpyType::kInt32, ElementType::kInt32},
    {NpyType::kInt64, ElementType::kInt64},   {NpyType::kUint8, ElementType::kUint8},
    {NpyType::kUint16, ElementType::kUint16}, {NpyType::kUint32, ElementType::kUint32},
    {NpyType::kUint64, ElementType::kUint64}, {NpyType::kFloat, ElementType::kFloat},
    {NpyType::kDouble, ElementType::kDouble},
};

}  // namespace

TensorData to_tensor(NpyArray array) {
  TensorData tensor;
  tensor.name = array.name;
  for (const Pair& pair : kTypes) {
    if (pair.array == array.type) tensor.type = pair.tensor;
  }
  tensor.dims = array.shape;
  const auto owner = std::make_shared<const NpyArray>(std::move(array));
  tensor.bytes = owner->data;
  tensor.owner = owner;
  return tensor;
}

Result<NpyView> to_array(const TensorData& tensor) {
  for (const Pair& pair : kTypes) {
    if (pair.tensor == tensor.type)
      return NpyView{tensor.name, pair.array, tensor.dims, tensor.bytes};
  }
  return invalid_input(describe("value", tensor.name) + " has the type " +
                       element_name(tensor.type) + ", which NPZ files do not have");
}

}  // namespace mantissa::onnx
