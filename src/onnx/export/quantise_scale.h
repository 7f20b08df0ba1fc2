// The float32 scales for which QuantizeLinear gives the same steps as a `quantise` node.
#pragma once

#include <optional>

#include "ops/quantise_steps.h"

namespace mantissa::onnx {

// The mantissas that a `quantise` node reads, and their exponent.
struct QuantiseInput {
  int least = -127, most = 127;
  int exponent = 0;
};

// A scale with the same steps for each mantissa. Nothing if there is none: the steps are exact
// quotients, and a quotient by a float32 may miss a tie.
std::optional<float> quantise_scale(const ops::QuantiseSteps& steps, const QuantiseInput& input);

// The nearest range of 16 bits that has such a scale for every exponent of the input. A range that
// already does is returned unchanged. `bits` and `is_signed` are the node's.
double range_with_scales(double range, int bits, bool is_signed);

}  // namespace mantissa::onnx
