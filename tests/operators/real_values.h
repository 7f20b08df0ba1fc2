// The values of a tensor in double: mantissas times their exponents.
#pragma once

#include <algorithm>
#include <cmath>

#include "tensor/tensor.h"
#include "tests/operators/definitions.h"

namespace mantissa::testing {

inline double element(const Tensor& tensor, int64_t i) {
  switch (tensor.type) {
    case DataType::kUint8:
      return tensor.as<uint8_t>()[i];
    case DataType::kInt8:
      return tensor.as<int8_t>()[i];
    case DataType::kInt16:
      return tensor.as<int16_t>()[i];
    case DataType::kInt32:
      return tensor.as<int32_t>()[i];
    case DataType::kInt64:
      return static_cast<double>(tensor.as<int64_t>()[i]);
    case DataType::kFloat:
      return tensor.as<float>()[i];
    case DataType::kDouble:
      return tensor.as<double>()[i];
  }
  return 0;
}

inline int exponent_of(const Tensor& tensor, int64_t i) {
  if (tensor.exponent == nullptr || tensor.type == DataType::kUint8) return 0;  // pixels
  if (tensor.blocks > 1) return tensor.block_exponent(i / (tensor.count() / tensor.blocks));
  if (tensor.row_exponents != nullptr) return tensor.row_exponent(i / tensor.shape.last());
  const bool guarded = tensor.guarded != nullptr && *tensor.guarded != 0;
  return *tensor.exponent + (guarded ? tensor.channel_exponent[i % tensor.shape.last()] : 0);
}

inline Reals reals(const Tensor& tensor) {
  Reals values(static_cast<size_t>(tensor.count()));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    values[i] = std::ldexp(element(tensor, i), exponent_of(tensor, i));
  }
  return values;
}

inline double largest(const Reals& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

}  // namespace mantissa::testing
