// The normal distribution in Q30, in integers: for GELU.
#pragma once

#include <array>
#include <cstdint>

namespace mantissa {

// Both functions in Q30 at steps of 2^-5 up to 6.5, and one step more.
constexpr int kNormalStepBits = 5;
constexpr int64_t kNormalSteps = 208;
struct NormalTables {
  std::array<int64_t, kNormalSteps + 2> probability = {}, density = {};
};
extern const NormalTables kNormalTables;

// Phi(x), the probability of less than x, and phi(x), its derivative.
struct NormalQ30 {
  int64_t probability;
  int64_t density;
};

// At x = q * 2^e, |q| < 2^15: tables at multiples of 1/32, between them cubic polynomials through
// both values and their slopes. Errors below 1e-8. At |x| >= 6.5, where the rest is below 2^-30,
// exactly 0 or 1, and 0.
NormalQ30 normal_q30(int64_t q, int e);

// The probability alone.
int64_t normal_probability_q30(int64_t q, int e);

}  // namespace mantissa
