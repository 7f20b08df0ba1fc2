#include "onnx/evaluate/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/checked.h"
#include "base/sizes.h"

namespace mantissa::onnx {

int64_t count_of(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

std::string to_text(const Dims& dims) {
  std::string text = "[";
  for (const int64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

Result<int64_t> value_bytes(ElementType type, const Dims& dims) {
  std::optional<int64_t> bits = element_bits(type);
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return invalid_input("a value of dims " + to_text(dims));
    empty |= dim == 0;
  }
  // Even if one dimension is 0, the others must be possible.
  for (const int64_t dim : dims) {
    if (bits) bits = checked_mul(*bits, std::max<int64_t>(dim, 1));
  }
  if (!bits || *bits / 8 > kMostValueBytes) {
    return invalid_input("a value of dims " + to_text(dims) + " is larger than " +
                         format_bytes(kMostValueBytes));
  }
  return empty ? 0 : (*bits + 7) / 8;
}

Result<TensorData> allocate(ElementType type, const Dims& dims) {
  if (element_bits(type) == 0) {
    return invalid_input(std::string("values of type ") + element_name(type) +
                         " are not supported");
  }
  if (dims.size() > 16) return invalid_input("a value of " + std::to_string(dims.size()) + " dims");
  MANTISSA_ASSIGN(const int64_t bytes, value_bytes(type, dims));
  TensorData tensor{"", type, dims, {}, nullptr};
  // Cleared, and aligned for any type. An empty value has an address too: it is known.
  const size_t words = static_cast<size_t>(bytes) / sizeof(uint64_t) + 1;
  std::shared_ptr<uint64_t[]> buffer(new (std::nothrow) uint64_t[words]());
  if (buffer == nullptr) return out_of_memory("a value of dims " + to_text(dims), bytes);
  tensor.bytes = std::as_bytes(std::span(buffer.get(), words)).first(static_cast<size_t>(bytes));
  tensor.owner = std::move(buffer);
  return tensor;
}

Result<TensorData> aligned(const TensorData& tensor) {
  const size_t size = static_cast<size_t>(element_bits(tensor.type)) / 8;
  bool usable = size <= 1 || reinterpret_cast<uintptr_t>(tensor.bytes.data()) % size == 0;
  if (tensor.type == ElementType::kBool) {
    for (const std::byte byte : tensor.bytes) usable &= byte <= std::byte{1};
  }
  if (usable && (tensor.bytes.data() != nullptr || !tensor.bytes.empty())) return tensor;
  MANTISSA_ASSIGN(TensorData copy, allocate(tensor.type, tensor.dims));
  copy.name = tensor.name;
  const std::span<std::byte> out = writable<std::byte>(copy);
  if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), out.size());
  if (tensor.type == ElementType::kBool) {
    for (std::byte& byte : out) byte = byte == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  return copy;
}

Result<std::vector<int64_t>> whole_numbers(const TensorData& tensor) {
  if (tensor.type == ElementType::kInt64) {
    const auto from = numbers<int64_t>(tensor);
    return std::vector<int64_t>(from.begin(), from.end());
  }
  if (tensor.type == ElementType::kInt32) {
    const auto from = numbers<int32_t>(tensor);
    return std::vector<int64_t>(from.begin(), from.end());
  }
  return invalid_input(std::string("whole numbers are wanted, not ") + element_name(tensor.type));
}

}  // namespace mantissa::onnx
