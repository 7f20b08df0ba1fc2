// Reductions over some axes of an example: its elements as [outer, count, inner], of which `count`
// become one.
#pragma once

#include <span>

#include "base/result.h"
#include "ops/attributes.h"
#include "tensor/tensor.h"

namespace mantissa::ops {

struct Reduction {
  int64_t outer = 1, count = 1, inner = 1;  // with the batch: `outer` of all examples

  // Of the element of the result that element i is part of.
  int64_t result_of(int64_t i) const { return i / (count * inner) * inner + i % inner; }
  int64_t results() const { return outer * inner; }
};

// The shape of the one input, of an example, with these axes reduced; or why it has none of them.
Result<Shape> reduced_shape(ReducedAxes over, std::span<const Shape> inputs);

// Of a tensor, with its batch.
inline Reduction reduction_of(const Shape& shape, ReducedAxes axes) {
  const int64_t channels = shape.last(), examples = shape[0];
  const int64_t positions = shape.count() / channels / examples;
  switch (axes) {
    case ReducedAxes::kPositions:
      return {examples, positions, channels};
    case ReducedAxes::kHeight:
      return {examples, shape[1], positions / shape[1] * channels};
    case ReducedAxes::kWidth:
      return {examples * shape[1], shape[2], channels};
    case ReducedAxes::kChannels:
      return {examples * positions, channels, 1};
  }
  return {};
}

}  // namespace mantissa::ops
