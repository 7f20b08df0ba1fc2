// Point-wise functions of x = q * 2^e with q of up to 16 bits. They fill the 256-entry tables of
// operators, or are computed for each element. Source: METHODS, "Exact non-linear functions in
// integers"; definitions and errors in docs/operators.md.
#pragma once

#include "reference/numerics/numerics.h"

// A number >= 0 as an exact fraction; denominator >= 1.
typedef struct RefFraction {
  int64_t numerator REF_CXX(= 0);
  int64_t denominator REF_CXX(= 1);
} RefFraction;

// Mantissas from `low` to `high`, none if low > high.
typedef struct RefMantissaRange {
  int64_t low REF_CXX(= 0), high REF_CXX(= 0);
} RefMantissaRange;

// One function. |q| < 2^15, e in [-128, 127]; `slope`, of at most 2^17 above and 2^16 below, is
// read by leaky ReLU and ELU only.
typedef struct RefPointFunction {
  // f(q * 2^e) = value(q, e, slope) * 2^wide_exponent(e); |value| <= 2^46.
  int (*wide_exponent)(int e);
  int64_t (*value)(int64_t q, int e, RefFraction slope);
  // f'(q * 2^e) in Q30. At a kink of f, the slope on the side away from zero; at zero the slope
  // below.
  int64_t (*derivative_q30)(int64_t q, int e, RefFraction slope);
  // Whether f only clips q at e, and then to which range; or null.
  bool (*clips)(int e, RefMantissaRange* range);
  // The range in which f' is one, if it is zero elsewhere; or null.
  RefMantissaRange (*passes)(int e);
} RefPointFunction;

// Compares as x does with whole numbers up to 128, in units of 2^-16: beyond these exponents every
// q but 0 is far above, or below one.
REF_INLINE int ref_comparable_exponent(int e) { return (int)ref_clamp(e, -16, 16) + 16; }
REF_INLINE int64_t ref_comparable(int64_t q, int e) {
  return q * (INT64_C(1) << ref_comparable_exponent(e));
}

// x * slope in Q30, for slopes that vanish at large x.
REF_INLINE int64_t ref_times_x_q30(int64_t q, int e, int64_t slope) {
  return slope == 0 ? 0 : ref_rescale_rne(q * slope, -e);
}

REF_BEGIN

extern const RefPointFunction ref_relu6_function;         // min(max(x, 0), 6), exactly
extern const RefPointFunction ref_leaky_relu_function;    // x > 0 ? x : slope * x
extern const RefPointFunction ref_sigmoid_function;       // 1 / (1 + e^-x)
extern const RefPointFunction ref_tanh_function;          // tanh x
extern const RefPointFunction ref_silu_function;          // x * sigmoid(x)

REF_END
