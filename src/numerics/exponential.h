// 2^x, log2 x and their use in softmax, in integers. Source: METHODS, "Exact non-linear functions".
#pragma once

#include <cstdint>

#include "numerics/rounding.h"
#include "reference/numerics/exponential.h"

namespace mantissa {

// log2(e) in Q16.
constexpr int64_t kLog2EQ16 = REF_LOG2_E_Q16;

// Coefficients of 2^x for x in [0, 1), in Q30, from the constant on.
inline constexpr int64_t kExp2Coefficients[] = {1073741824, 744266013, 257869052,
                                                59934850,   9654007,   2017902};

// 2^(fraction / 2^bits) in Q30 for fraction in [0, 2^bits), bits <= 30: relative error below 1e-7;
// monotone for 16 bits.
constexpr int64_t exp2_fraction_q30(int64_t fraction, int bits = 16) {
  return ref_exp2_fraction_q30(fraction, bits);
}

// 2^(exponent / 2^16) in Q30 for exponent <= 0, rounded down.
constexpr int64_t exp2_q30(int64_t exponent) { return ref_exp2_q30(exponent); }

// e^-(m * 2^exponent) in Q30, rounded down, for m in [0, 2^15]: error below 4e-7 relative to the
// result and 2^-30.
constexpr int64_t exp_q30(int64_t m, int exponent) { return ref_exp_q30(m, exponent); }

// difference * 2^scale_exponent * log2(e) in Q16, rounded to nearest even and clipped at -2^40; for
// difference <= 0 (a logit minus the largest), |difference| < 2^33.
constexpr int64_t natural_to_log2_q16(int64_t difference, int scale_exponent) {
  return ref_natural_to_log2_q16(difference, scale_exponent);
}

// log2(n) in Q24 for n >= 1, rounded down, by repeated squaring.
constexpr int64_t log2_q24(uint64_t n) { return ref_log2_q24(n); }

// A sum of losses in Q24 bits (-log2 p) as nats, for people.
constexpr double nats_from_q24(int64_t bits_q24) {
  return static_cast<double>(bits_q24) * 0x1p-24 * 0.693147180559945309417;
}

}  // namespace mantissa
