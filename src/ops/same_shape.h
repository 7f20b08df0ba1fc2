// The shape of operators that leave it as it is.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

// Op::infer_shape of one input, whose shape the output has.
inline Result<Shape> same_shape(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank == 0) return invalid_input("wants one input");
  return inputs[0];
}

}  // namespace mantissa::ops
