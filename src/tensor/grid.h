// The meaning of a tensor's numbers. A value of its own, so that it can differ from tensor to
// tensor.
#pragma once

#include <cstdint>

#include "numerics/exponent.h"
#include "numerics/weight_grid.h"
#include "tensor/tensor.h"

namespace mantissa {

enum class Scaling : uint8_t {
  kExponent,  // mantissa * 2^exponent; mantissas are symmetric, |mantissa| < 2^(bits-1)
  kReal,      // the number itself
};

enum class Blocks : uint8_t {
  kTensor,   // one exponent for all of it
  kChannel,  // one for each part of its first axis: the output channels of weights
  kRow,      // one for each vector along its last axis: the tokens of values
};

struct Grid {
  Scaling scaling = Scaling::kExponent;
  int bits = 8;  // of mantissas, 2 to 32
  Blocks blocks = Blocks::kTensor;
  int exponent_limit = kExponentMax;  // the largest that readers need
  WeightGrid weights = {};            // with bits: for weights whose exponent is fixed

  // The type of its numbers in memory: int8, int16, int32; fp32.
  constexpr DataType storage() const {
    if (scaling == Scaling::kReal) return DataType::kFloat;
    return bits <= 8 ? DataType::kInt8 : bits <= 16 ? DataType::kInt16 : DataType::kInt32;
  }
  bool operator==(const Grid&) const = default;
};

}  // namespace mantissa
