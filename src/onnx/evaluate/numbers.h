// The numbers of a tensor as C++ types, and the dispatch from one to the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/float16.h"
#include "base/result.h"
#include "onnx/model.h"

namespace mantissa::onnx {

using Dims = std::vector<int64_t>;

// The product of all dims, which is known to fit.
int64_t count_of(const Dims& dims);

// "[1, 3, 224, 224]".
std::string to_text(const Dims& dims);

// A tensor's numbers, which must be of that type and aligned (aligned() below).
template <typename T>
std::span<const T> numbers(const TensorData& tensor) {
  return {reinterpret_cast<const T*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(T)};
}

// The same to be written, of a tensor that allocate() has just made.
template <typename T>
std::span<T> writable(TensorData& tensor) {
  return {reinterpret_cast<T*>(const_cast<std::byte*>(tensor.bytes.data())),
          tensor.bytes.size() / sizeof(T)};
}

// Zeros. Errors: more than kMostValueBytes, dims below 0, no memory.
constexpr int64_t kMostValueBytes = int64_t{2} << 30;
Result<TensorData> allocate(ElementType type, const Dims& dims);

// The bytes of this many numbers; an error if they are more than kMostValueBytes.
Result<int64_t> value_bytes(ElementType type, const Dims& dims);

// The tensor if its numbers can be used in place, else a copy: unaligned numbers in a file,
// truth values other than 0 and 1.
Result<TensorData> aligned(const TensorData& tensor);

// Whole numbers of a tensor of int32 or int64.
Result<std::vector<int64_t>> whole_numbers(const TensorData& tensor);

template <typename... Ts>
struct Types {};

using Floats = Types<float, double>;
using SignedNumbers = Types<float, double, int8_t, int16_t, int32_t, int64_t>;
using Integers = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using UnsignedIntegers = Types<uint8_t, uint16_t, uint32_t, uint64_t>;
using Numbers =
    Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using Booleans = Types<bool>;
using AllTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                       uint32_t, uint64_t, bool>;

template <typename T>
constexpr ElementType element_type_of() {
  if constexpr (std::is_same_v<T, float>) return ElementType::kFloat;
  if constexpr (std::is_same_v<T, double>) return ElementType::kDouble;
  if constexpr (std::is_same_v<T, int8_t>) return ElementType::kInt8;
  if constexpr (std::is_same_v<T, int16_t>) return ElementType::kInt16;
  if constexpr (std::is_same_v<T, int32_t>) return ElementType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return ElementType::kInt64;
  if constexpr (std::is_same_v<T, uint8_t>) return ElementType::kUint8;
  if constexpr (std::is_same_v<T, uint16_t>) return ElementType::kUint16;
  if constexpr (std::is_same_v<T, uint32_t>) return ElementType::kUint32;
  if constexpr (std::is_same_v<T, uint64_t>) return ElementType::kUint64;
  if constexpr (std::is_same_v<T, bool>) return ElementType::kBool;
  return ElementType::kUndefined;
}

// Calls function.operator()<T>() -> Status for the C++ type of `type`, which must be one of a list.
template <typename Function, typename... Ts>
Status with_type(Types<Ts...>, ElementType type, Function&& function) {
  Status status;
  const bool found =
      ((element_type_of<Ts>() == type && ((status = function.template operator()<Ts>()), true)) ||
       ...);
  if (found) return status;
  return invalid_input(std::string("numbers of type ") + element_name(type) +
                       " are not supported here");
}

}  // namespace mantissa::onnx
