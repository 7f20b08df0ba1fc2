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

float from_float16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const int exponent = bits >> 10 & 31;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f80'0000 | fraction << 13);
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

uint16_t to_float16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(number)) return static_cast<uint16_t>(sign | 0x7e00);
  const float magnitude = std::fabs(number);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The place of the last of 11 bits, or of the least subnormal.
  const int unit = std::max(exponent - 11, -24);
  const auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // A mantissa of 2048 carries into the exponent by itself.
  const uint32_t whole =
      unit == -24 ? mantissa : (static_cast<uint32_t>(unit + 25) << 10) + mantissa - 0x400;
  return static_cast<uint16_t>(sign | whole);
}

float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t to_bfloat16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  if (std::isnan(number)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace mantissa::onnx
