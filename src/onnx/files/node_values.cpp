#include "onnx/files/node_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/float16.h"

namespace mantissa::onnx {
namespace {

template <typename T>
const T* find_attribute(const NodeData& node, std::string_view name) {
  for (const NodeAttribute& attribute : node.attributes) {
    if (attribute.name == name) return std::get_if<T>(&attribute.value);
  }
  return nullptr;
}

template <typename T>
T element(const TensorData& tensor, size_t i) {
  T number{};
  std::memcpy(&number, tensor.bytes.data() + i * sizeof(T), sizeof(T));
  return number;
}

double number_at(const TensorData& tensor, size_t i) {
  switch (tensor.type) {
    case ElementType::kFloat:
      return element<float>(tensor, i);
    case ElementType::kDouble:
      return element<double>(tensor, i);
    case ElementType::kFloat16:
      return from_float16(element<uint16_t>(tensor, i));
    case ElementType::kBfloat16:
      return from_bfloat16(element<uint16_t>(tensor, i));
    case ElementType::kInt64:
      return static_cast<double>(element<int64_t>(tensor, i));
    case ElementType::kInt32:
      return element<int32_t>(tensor, i);
    case ElementType::kInt8:
      return element<int8_t>(tensor, i);
    case ElementType::kUint8:
    case ElementType::kBool:
      return element<uint8_t>(tensor, i);
    default:
      return NAN;
  }
}

bool is_readable(ElementType type) {
  for (const ElementType known : {ElementType::kFloat, ElementType::kDouble, ElementType::kFloat16,
                                  ElementType::kBfloat16, ElementType::kInt64, ElementType::kInt32,
                                  ElementType::kInt8, ElementType::kUint8, ElementType::kBool}) {
    if (type == known) return true;
  }
  return false;
}

// If the elements of a constant have a size, and its bytes are all there.
Result<size_t> count_of(const TensorData& tensor) {
  size_t count = 1;
  for (const int64_t dim : tensor.dims) count *= static_cast<size_t>(dim);
  const size_t bytes = count * static_cast<size_t>(element_bits(tensor.type)) / 8;
  if (is_readable(tensor.type) && bytes == tensor.bytes.size()) return count;
  return invalid_input("the constant '" + tensor.name + "' is of " + element_name(tensor.type) +
                       ", which no weights are");
}

}  // namespace

int64_t whole_of(const NodeData& node, std::string_view name, int64_t otherwise) {
  const auto* found = find_attribute<int64_t>(node, name);
  return found == nullptr ? otherwise : *found;
}

double real_of(const NodeData& node, std::string_view name, double otherwise) {
  const auto* found = find_attribute<float>(node, name);
  return found == nullptr ? otherwise : *found;
}

std::vector<int64_t> wholes_of(const NodeData& node, std::string_view name,
                               std::vector<int64_t> otherwise) {
  const auto* found = find_attribute<std::vector<int64_t>>(node, name);
  return found == nullptr ? std::move(otherwise) : *found;
}

std::string text_of(const NodeData& node, std::string_view name, std::string_view otherwise) {
  const auto* found = find_attribute<std::string>(node, name);
  return found == nullptr ? std::string(otherwise) : *found;
}

bool has_attribute(const NodeData& node, std::string_view name) {
  return std::any_of(node.attributes.begin(), node.attributes.end(),
                     [&](const NodeAttribute& attribute) { return attribute.name == name; });
}

bool has_input(const NodeData& node, size_t index) {
  return index < node.inputs.size() && !node.inputs[index].empty();
}

Result<std::vector<double>> numbers_of(const TensorData& tensor) {
  MANTISSA_ASSIGN(const size_t count, count_of(tensor));
  std::vector<double> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = number_at(tensor, i);
    if (std::isnan(numbers[i])) {
      return invalid_input("the constant '" + tensor.name + "' holds something that is no number");
    }
  }
  return numbers;
}

Result<std::vector<int64_t>> wholes_of(const TensorData& tensor) {
  MANTISSA_ASSIGN(const size_t count, count_of(tensor));
  std::vector<int64_t> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    if (tensor.type == ElementType::kInt64) {
      numbers[i] = element<int64_t>(tensor, i);
    } else if (tensor.type == ElementType::kInt32) {
      numbers[i] = element<int32_t>(tensor, i);
    } else {
      return invalid_input("the constant '" + tensor.name + "' is not of whole numbers");
    }
  }
  return numbers;
}

}  // namespace mantissa::onnx
