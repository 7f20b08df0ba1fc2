#include "numerics/point_functions.h"

#include <algorithm>
#include <cstdlib>

#include "numerics/exponential.h"
#include "numerics/normal_distribution.h"
#include "numerics/rounding.h"

namespace mantissa {

namespace {

constexpr int64_t kPointOne = int64_t{1} << 30;

int same_exponent(int e) { return std::min(e, 0); }
int q30_exponent(int) { return -30; }
int input_times_q30_exponent(int e) { return e - 30; }

// Compares as x does with whole numbers up to 128, in units of 2^-16: beyond these exponents every
// q but 0 is far above, or below one.
int comparable_exponent(int e) { return std::clamp(e, -16, 16) + 16; }
int64_t comparable(int64_t q, int e) { return q * (int64_t{1} << comparable_exponent(e)); }
constexpr int64_t kThree = 3 << 16, kSix = 6 << 16;

int64_t relu6(int64_t q, int e, Fraction) {
  const int64_t positive = std::max<int64_t>(q, 0);
  if (e < -13) return positive;                            // at most 2
  if (e < 0) return std::min(positive, int64_t{6} << -e);  // the unit divides 6
  return std::min(positive << std::min(e, 3), int64_t{6});
}
int64_t relu6_derivative(int64_t q, int e, Fraction) {
  return q > 0 && comparable(q, e) < kSix ? kPointOne : 0;
}

std::optional<MantissaRange> relu6_clips(int e) {
  if (e > 0) return std::nullopt;
  return MantissaRange{0, e < -13 ? INT16_MAX : int64_t{6} << -e};
}
MantissaRange relu6_passes(int e) { return {1, (kSix - 1) >> comparable_exponent(e)}; }

int64_t leaky_relu_derivative(int64_t q, int, Fraction slope) {
  return q > 0 ? kPointOne : divide_rne(__int128{slope.numerator} << 30, slope.denominator);
}
int64_t leaky_relu(int64_t q, int, Fraction slope) {
  if (q > 0) return q << 30;
  return divide_rne(__int128{q} * slope.numerator * kPointOne, slope.denominator);
}

// 1 / (1 + e^|x|) in Q30.
int64_t sigmoid_below(int64_t q, int e) {
  const int64_t power = exp_q30(q < 0 ? -q : q, e);
  const int64_t sum = kPointOne + power;
  return ((power << 30) + sum / 2) / sum;
}
int64_t sigmoid(int64_t q, int e, Fraction) {
  const int64_t below = sigmoid_below(q, e);
  return q > 0 ? kPointOne - below : below;
}
int64_t sigmoid_derivative(int64_t q, int e, Fraction) {
  const int64_t below = sigmoid_below(q, e);
  return shift_right_rne(below * (kPointOne - below), 30);
}

// Up to |x| = 1/4, which 8 bits do not exceed at this exponent, a power series gives every digit of
// the smallest values; larger values of more bits are brought to the series' exponent.
constexpr int kTanhSeriesExponent = -9;

int tanh_exponent(int e) { return e <= kTanhSeriesExponent ? e - 30 : -30; }
int64_t tanh_value(int64_t q, int e, Fraction slope) {
  if (e > kTanhSeriesExponent) return 2 * sigmoid(q, e + 1, slope) - kPointOne;
  if (e > -18 && std::abs(q) > int64_t{1} << (-e - 2)) {
    return (2 * sigmoid(q, e + 1, slope) - kPointOne) * (int64_t{1} << -e);
  }
  // tanh(x) / x = 1 - x^2/3 + 2x^4/15 - 17x^6/315 + 62x^8/2835 - ...
  constexpr int64_t kCoefficients[] = {kPointOne, -357913941, 143165577, -57947971, 23482185};
  const int64_t square = rescale_rne(q * q, -(2 * e + 30));
  int64_t ratio = kCoefficients[4];
  for (int i = 3; i >= 0; --i) ratio = kCoefficients[i] + ((ratio * square) >> 30);
  return q * ratio;
}
int64_t tanh_derivative(int64_t q, int e, Fraction slope) {
  return 4 * sigmoid_derivative(q, e + 1, slope);
}

// (factor * x + 3) / 6 in Q30, to nearest, for |x| < 3.
int64_t sixth_q30(int64_t q, int e, int64_t factor) {
  // Units of 2^-60. Anything smaller than one is far below half a unit of the result.
  const __int128 x = __int128{factor * q} << (std::max(e, -60) + 60);
  return divide_rne(x + (__int128{3} << 60), int64_t{6} << 30);
}
int64_t hard_sigmoid(int64_t q, int e, Fraction) {
  const int64_t x = comparable(q, e);
  if (x <= -kThree) return 0;
  if (x >= kThree) return kPointOne;
  return q == 0 ? kPointOne / 2 : sixth_q30(q, e, 1);
}
int64_t hard_sigmoid_derivative(int64_t q, int e, Fraction) {
  const int64_t x = comparable(q, e);
  return x > -kThree && x < kThree ? divide_rne(kPointOne, 6) : 0;
}
int64_t hard_swish(int64_t q, int e, Fraction slope) { return q * hard_sigmoid(q, e, slope); }
int64_t hard_swish_derivative(int64_t q, int e, Fraction) {
  const int64_t x = comparable(q, e);
  if (x <= -kThree) return 0;
  if (x >= kThree) return kPointOne;
  return q == 0 ? kPointOne / 2 : sixth_q30(q, e, 2);
}

// x * slope in Q30, for slopes that vanish at large x.
int64_t times_x_q30(int64_t q, int e, int64_t slope) {
  return slope == 0 ? 0 : rescale_rne(q * slope, -e);
}

int64_t gelu(int64_t q, int e, Fraction) { return q * normal_probability_q30(q, e); }
int64_t gelu_derivative(int64_t q, int e, Fraction) {
  const NormalQ30 normal = normal_q30(q, e);
  return normal.probability + times_x_q30(q, e, normal.density);
}

int64_t silu(int64_t q, int e, Fraction slope) { return q * sigmoid(q, e, slope); }
int64_t silu_derivative(int64_t q, int e, Fraction slope) {
  return sigmoid(q, e, slope) + times_x_q30(q, e, sigmoid_derivative(q, e, slope));
}

}  // namespace

const PointFunction kRelu6Function = {same_exponent, relu6, relu6_derivative, relu6_clips,
                                      relu6_passes};
const PointFunction kLeakyReluFunction = {input_times_q30_exponent, leaky_relu,
                                          leaky_relu_derivative};
const PointFunction kSigmoidFunction = {q30_exponent, sigmoid, sigmoid_derivative};
const PointFunction kTanhFunction = {tanh_exponent, tanh_value, tanh_derivative};
const PointFunction kHardSigmoidFunction = {q30_exponent, hard_sigmoid, hard_sigmoid_derivative};
const PointFunction kHardSwishFunction = {input_times_q30_exponent, hard_swish,
                                          hard_swish_derivative};
const PointFunction kGeluFunction = {input_times_q30_exponent, gelu, gelu_derivative};
const PointFunction kSiluFunction = {input_times_q30_exponent, silu, silu_derivative};

}  // namespace mantissa
