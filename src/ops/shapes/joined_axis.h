// The axis along which values are joined: their channels, or the positions of their sequences.
#pragma once

#include "tensor/tensor.h"

namespace mantissa::ops {

// The dimensions from the axis on.
constexpr int kOfChannels = 1, kOfPositions = 2;

// The elements of these dimensions. Joined values have them one after the other.
template <int kDims>
int64_t row_size(const Shape& shape) {
  return kDims == kOfChannels ? shape.last() : shape[shape.rank - 2] * shape.last();
}

}  // namespace mantissa::ops
