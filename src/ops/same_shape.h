// The shape of operators that keep it.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

// Op::infer_shape of operators with one input and an output of the same shape.
inline Result<Shape> same_shape(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank == 0) return invalid_input("wants one input");
  return inputs[0];
}

}  // namespace mantissa::ops
