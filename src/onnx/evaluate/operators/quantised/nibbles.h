// Numbers of 4 bits: two a byte, the first in the low half.
#pragma once

#include <cstdint>

#include "onnx/model.h"

namespace mantissa::onnx {

inline int64_t from_nibble(const TensorData& tensor, int64_t i) {
  const int byte = static_cast<int>(tensor.bytes[i / 2]);
  const int half = i % 2 == 0 ? byte & 15 : byte >> 4;
  return tensor.type == ElementType::kInt4 && half > 7 ? half - 16 : half;
}

// The half must be 0 before.
inline void put_nibble(uint8_t* bytes, int64_t i, int64_t number) {
  const auto bits = static_cast<int>(number & 15);
  bytes[i / 2] = static_cast<uint8_t>(bytes[i / 2] | bits << (i % 2 == 0 ? 0 : 4));
}

}  // namespace mantissa::onnx
