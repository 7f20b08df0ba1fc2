// The normal distribution in Q30, in integers: for GELU (reference/numerics/normal.h).
#pragma once

#include <cstdint>

#include "reference/numerics/normal.h"

namespace mantissa {

constexpr int kNormalStepBits = REF_NORMAL_STEP_BITS;
constexpr int64_t kNormalSteps = REF_NORMAL_STEPS;

// Phi(x), the probability of less than x, and phi(x), its derivative, at x = q * 2^e.
using NormalQ30 = RefNormal;
inline NormalQ30 normal_q30(int64_t q, int e) { return ref_normal_q30(q, e); }
inline int64_t normal_probability_q30(int64_t q, int e) { return ref_normal_probability_q30(q, e); }

}  // namespace mantissa
