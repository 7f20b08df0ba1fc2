// The normal distribution in Q30: for GELU.
#pragma once

#include "reference/types.h"

// Both functions in Q30 at steps of 2^-5 up to 6.5, and one step more.
enum { REF_NORMAL_STEP_BITS = 5, REF_NORMAL_STEPS = 208 };

typedef struct RefNormalTables {
  int64_t probability[REF_NORMAL_STEPS + 2], density[REF_NORMAL_STEPS + 2];
} RefNormalTables;

// Phi(x), the probability of less than x, and phi(x), its derivative.
typedef struct RefNormal {
  int64_t probability;
  int64_t density;
} RefNormal;

REF_BEGIN

extern const RefNormalTables ref_normal_tables;

// At x = q * 2^e, |q| < 2^15: tables at multiples of 1/32, between them cubic polynomials through
// both values and their slopes. Errors below 1e-8. At |x| >= 6.5, where the rest is below 2^-30,
// exactly 0 or 1, and 0.
RefNormal ref_normal_q30(int64_t q, int e) REF_NOEXCEPT;

// The probability alone.
int64_t ref_normal_probability_q30(int64_t q, int e) REF_NOEXCEPT;

REF_END
