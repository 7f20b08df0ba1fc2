// Point-wise functions of x = q * 2^e with q of up to 16 bits
// (reference/numerics/point_functions.h, scalars/smooth_functions.h). They fill the 256-entry
// tables of ops/pointwise/pointwise.cpp, or are computed for each element.
#pragma once

#include "numerics/nearest_fraction.h"
#include "reference/numerics/point_functions.h"
#include "scalars/smooth_functions.h"

namespace mantissa {

using MantissaRange = RefMantissaRange;
using PointFunction = RefPointFunction;

inline constexpr const PointFunction& kRelu6Function = ref_relu6_function;
inline constexpr const PointFunction& kLeakyReluFunction = ref_leaky_relu_function;
inline constexpr const PointFunction& kSigmoidFunction = ref_sigmoid_function;
inline constexpr const PointFunction& kTanhFunction = ref_tanh_function;
inline constexpr const PointFunction& kHardSigmoidFunction = ref_hard_sigmoid_function;
inline constexpr const PointFunction& kHardSwishFunction = ref_hard_swish_function;
inline constexpr const PointFunction& kGeluFunction = ref_gelu_function;
inline constexpr const PointFunction& kGeluTanhFunction = ref_gelu_tanh_function;
inline constexpr const PointFunction& kSiluFunction = ref_silu_function;
inline constexpr const PointFunction& kEluFunction = ref_elu_function;
inline constexpr const PointFunction& kSoftplusFunction = ref_softplus_function;
inline constexpr const PointFunction& kMishFunction = ref_mish_function;

}  // namespace mantissa
