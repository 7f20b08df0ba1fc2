// Point-wise functions of x = q * 2^e with q of up to 16 bits. They fill the 256-entry tables of
// ops/pointwise/pointwise.cpp, or are computed for each element. Integer arithmetic only. Source:
// METHODS, "Exact non-linear functions in integers"; definitions and errors in docs/operators.md.
#pragma once

#include <cstdint>
#include <optional>

#include "numerics/nearest_fraction.h"

namespace mantissa {

// Mantissas from `low` to `high`, none if low > high.
struct MantissaRange {
  int64_t low = 0, high = 0;
};

// One function. |q| < 2^15, e in [-128, 127]; `slope`, of at most 2^16 above and below, is read by
// kLeakyReluFunction only.
struct PointFunction {
  // f(q * 2^e) = value(q, e, slope) * 2^wide_exponent(e); |value| <= 2^46.
  int (*wide_exponent)(int e);
  int64_t (*value)(int64_t q, int e, Fraction slope);
  // f'(q * 2^e) in Q30. At a kink of f, the slope on the side away from zero; at zero the slope
  // below.
  int64_t (*derivative_q30)(int64_t q, int e, Fraction slope);
  // The range, if f only clips q at e.
  std::optional<MantissaRange> (*clips)(int e) = nullptr;
  // The range in which f' is one, if it is zero elsewhere.
  MantissaRange (*passes)(int e) = nullptr;
};

extern const PointFunction kRelu6Function;        // min(max(x, 0), 6), exactly
extern const PointFunction kLeakyReluFunction;    // x > 0 ? x : slope * x
extern const PointFunction kSigmoidFunction;      // 1 / (1 + e^-x)
extern const PointFunction kTanhFunction;         // tanh x
extern const PointFunction kHardSigmoidFunction;  // min(max(x + 3, 0), 6) / 6
extern const PointFunction kHardSwishFunction;    // x * hard_sigmoid(x)
extern const PointFunction kGeluFunction;         // x * Phi(x), of the normal distribution
extern const PointFunction kSiluFunction;         // x * sigmoid(x)

}  // namespace mantissa
