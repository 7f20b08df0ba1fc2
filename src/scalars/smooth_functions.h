// Further point-wise functions (reference/numerics/point_functions.h). Definitions and errors:
// docs/operators.md.
#pragma once

#include "reference/numerics/point_functions.h"

REF_BEGIN

extern const RefPointFunction ref_hard_sigmoid_function;  // min(max(x + 3, 0), 6) / 6
extern const RefPointFunction ref_hard_swish_function;    // x * hard_sigmoid(x)
extern const RefPointFunction ref_gelu_function;          // x * Phi(x), of the normal distribution
// x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), GELU's approximation with tanh
extern const RefPointFunction ref_gelu_tanh_function;
extern const RefPointFunction ref_elu_function;           // x > 0 ? x : slope * (e^x - 1)
extern const RefPointFunction ref_softplus_function;      // ln(1 + e^x)
extern const RefPointFunction ref_mish_function;          // x * tanh(softplus(x))

REF_END
