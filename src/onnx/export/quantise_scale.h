// The float32 scales by which QuantizeLinear gives the steps of a `quantise` node.
#pragma once

#include <optional>

#include "ops/quantise_steps.h"

namespace mantissa::onnx {

// The mantissas that a `quantise` node reads, and their exponent.
struct QuantiseInput {
  int least = -127, most = 127;
  int exponent = 0;
};

// A scale with the same steps for each mantissa. Nothing where none has them: the steps are exact
// quotients, and a quotient by a float32 may miss a tie.
std::optional<float> quantise_scale(const ops::QuantiseSteps& steps, const QuantiseInput& input);

// The range nearest to this one, of 16 bits, that has such a scale whatever exponent the input has.
// A range that has them is returned as it is. `bits` and `is_signed`: those of the node.
double range_with_scales(double range, int bits, bool is_signed);

}  // namespace mantissa::onnx
