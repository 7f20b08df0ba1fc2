#include "reference/numerics/point_functions.h"

#include "reference/numerics/exponential.h"

#define ONE (INT64_C(1) << 30)

static int same_exponent(int e) { return e < 0 ? e : 0; }
static int q30_exponent(int e) {
  (void)e;
  return -30;
}
static int input_times_q30_exponent(int e) { return e - 30; }

#define SIX (INT64_C(6) << 16)

static int64_t relu6(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const int64_t positive = ref_larger(q, 0);
  if (e < -13) return positive;                               // at most 2
  if (e < 0) return ref_smaller(positive, INT64_C(6) << -e);  // the unit divides 6
  return ref_smaller(positive << (e < 3 ? e : 3), 6);
}
static int64_t relu6_derivative(int64_t q, int e, RefFraction slope) {
  (void)slope;
  return q > 0 && ref_comparable(q, e) < SIX ? ONE : 0;
}

static bool relu6_clips(int e, RefMantissaRange* range) {
  range->low = 0;
  range->high = e < -13 || e > 0 ? INT16_MAX : INT64_C(6) << -e;
  return e <= 0;
}
static RefMantissaRange relu6_passes(int e) {
  const RefMantissaRange range = {1, (SIX - 1) >> ref_comparable_exponent(e)};
  return range;
}

// Numerators are below 2^17: 2^15 * 2^17 * 2^30 fits.
static int64_t leaky_relu_derivative(int64_t q, int e, RefFraction slope) {
  (void)e;
  return q > 0 ? ONE : ref_divide_rne(slope.numerator << 30, slope.denominator);
}
static int64_t leaky_relu(int64_t q, int e, RefFraction slope) {
  (void)e;
  return q > 0 ? q << 30 : ref_divide_rne(q * slope.numerator * ONE, slope.denominator);
}

// 1 / (1 + e^|x|) in Q30: a power of at most 2^30 is divided by at least 2^30.
static int64_t sigmoid_below(int64_t q, int e) {
  const int64_t power = ref_exp_q30(q < 0 ? -q : q, e);
  const int64_t sum = ONE + power;
  return ((power << 30) + sum / 2) / sum;
}
static int64_t sigmoid(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const int64_t below = sigmoid_below(q, e);
  return q > 0 ? ONE - below : below;
}
static int64_t sigmoid_derivative(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const int64_t below = sigmoid_below(q, e);
  return ref_shift_right_rne(below * (ONE - below), 30);
}

// Up to |x| = 1/4, which 8 bits do not exceed at this exponent, a power series gives every digit of
// the smallest values; larger values of more bits are brought to the series' exponent.
enum { kTanhSeriesExponent = -9 };

static int tanh_exponent(int e) { return e <= kTanhSeriesExponent ? e - 30 : -30; }

// tanh(x) / x = 1 - x^2/3 + 2x^4/15 - 17x^6/315 + 62x^8/2835 - ...
static int64_t tanh_series(int64_t q, int e) {
  const int64_t square = ref_rescale_rne(q * q, -(2 * e + 30));
  int64_t ratio = 23482185;
  ratio = -57947971 + ((ratio * square) >> 30);
  ratio = 143165577 + ((ratio * square) >> 30);
  ratio = -357913941 + ((ratio * square) >> 30);
  ratio = ONE + ((ratio * square) >> 30);
  return q * ratio;
}
static int64_t tanh_value(int64_t q, int e, RefFraction slope) {
  const int64_t size = q < 0 ? -q : q;
  if (e > kTanhSeriesExponent) return 2 * sigmoid(q, e + 1, slope) - ONE;
  if (e > -18 && size > INT64_C(1) << (-e - 2)) {
    return (2 * sigmoid(q, e + 1, slope) - ONE) * (INT64_C(1) << -e);
  }
  return tanh_series(q, e);
}
static int64_t tanh_derivative(int64_t q, int e, RefFraction slope) {
  return 4 * sigmoid_derivative(q, e + 1, slope);
}

static int64_t silu(int64_t q, int e, RefFraction slope) { return q * sigmoid(q, e, slope); }
static int64_t silu_derivative(int64_t q, int e, RefFraction slope) {
  return sigmoid(q, e, slope) + ref_times_x_q30(q, e, sigmoid_derivative(q, e, slope));
}

const RefPointFunction ref_relu6_function = {same_exponent, relu6, relu6_derivative, relu6_clips,
                                             relu6_passes};
const RefPointFunction ref_leaky_relu_function = {input_times_q30_exponent, leaky_relu,
                                                  leaky_relu_derivative, NULL, NULL};
const RefPointFunction ref_sigmoid_function = {q30_exponent, sigmoid, sigmoid_derivative, NULL,
                                               NULL};
const RefPointFunction ref_tanh_function = {tanh_exponent, tanh_value, tanh_derivative, NULL, NULL};
const RefPointFunction ref_silu_function = {input_times_q30_exponent, silu, silu_derivative, NULL,
                                            NULL};
