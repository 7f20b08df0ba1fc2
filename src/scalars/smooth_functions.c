#include "scalars/smooth_functions.h"

#include "reference/numerics/exponential.h"
#include "reference/numerics/normal.h"
#include "reference/numerics/numerics.h"

#define ONE (INT64_C(1) << 30)

static int product_exponent(int e) { return e - 30; }
static int q30_exponent(int e) {
  (void)e;
  return -30;
}

static int64_t sigmoid(int64_t q, int e) {
  const RefFraction unread = {0, 1};
  return ref_sigmoid_function.value(q, e, unread);
}

static int64_t gelu(int64_t q, int e, RefFraction slope) {
  (void)slope;
  return q * ref_normal_probability_q30(q, e);
}
static int64_t gelu_derivative(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const RefNormal normal = ref_normal_q30(q, e);
  return normal.probability + ref_times_x_q30(q, e, normal.density);
}

// GELU's approximation with tanh is x * sigmoid(u) of u = k (x + c x^3). Within it x is in Q28 and
// clipped at 8, where sigmoid(u) is 0 or 1 in Q30. So x^2 is below 2^35, 1 + 3 c x^2 below 2^32, and
// all products are below 2^63.
enum { kBendBits = 28 };
#define BEND_K_Q30 INT64_C(1713444047)  // k = 2 sqrt(2 / pi)
#define BEND_C_Q30 INT64_C(48012366)    // c = 0.044715

static int64_t bent_x(int64_t q, int e) {
  const int64_t most = (int64_t)8 << kBendBits;
  if (e > 2) return q == 0 ? 0 : q > 0 ? most : -most;
  const int64_t x = ref_rescale_rne(q, -(e + kBendBits));
  return ref_larger(-most, ref_smaller(x, most));
}

// k (1 + factor c x^2) in Q28, for factors 1 and 3: u / x and u'.
static int64_t bend_q28(int64_t x, int64_t factor) {
  const int64_t square = ref_shift_right_rne(x * x, kBendBits);
  const int64_t sum =
      ((int64_t)1 << kBendBits) + factor * ref_shift_right_rne(square * BEND_C_Q30, 30);
  return ref_shift_right_rne(sum * BEND_K_Q30, 30);
}

// u in Q26: |u| < 50, which ref_exp_q30's product has room for.
enum { kBentExponent = -26 };
static int64_t bent_q26(int64_t x) {
  return ref_shift_right_rne(x * bend_q28(x, 1), 2 * kBendBits + kBentExponent);
}

static int64_t gelu_tanh(int64_t q, int e, RefFraction slope) {
  (void)slope;
  return q * sigmoid(bent_q26(bent_x(q, e)), kBentExponent);
}
static int64_t gelu_tanh_derivative(int64_t q, int e, RefFraction slope) {
  const int64_t x = bent_x(q, e), u = bent_q26(x);
  const int64_t bend = ref_shift_right_rne(x * bend_q28(x, 3), kBendBits);
  const int64_t sigmoid_slope = ref_sigmoid_function.derivative_q30(u, kBentExponent, slope);
  return sigmoid(u, kBentExponent) + ref_shift_right_rne(bend * sigmoid_slope, kBendBits);
}

// 1 / (k + 1)! in Q30.
static const int64_t kFactorials[] = {1073741824, 536870912, 178956971, 44739243, 8947849, 1491308,
                                      213044,     26631,     2959,      296,      27,      2};
enum { kFactorialCount = sizeof kFactorials / sizeof kFactorials[0] };

// 1 - e^-x of x = m * 2^e, m >= 0, in units of 2^(e - 30): up to x = 1 by a power series of the
// ratio to x, which keeps the digits of the smallest values.
static int64_t decay(int64_t m, int e) {
  const int64_t x = ref_rescale_rne(m, -(e + 30));
  if (x > ONE) return ref_rescale_rne(ONE - ref_exp_q30(m, e), e);
  int64_t ratio = 0;
  for (int k = kFactorialCount - 1; k >= 0; --k) {
    ratio = kFactorials[k] - ref_shift_right_rne(ratio * x, 30);
  }
  return m * ratio;
}

// As leaky ReLU's, the products fit.
static int64_t elu(int64_t q, int e, RefFraction slope) {
  return q > 0 ? q << 30 : ref_divide_rne(-decay(-q, e) * slope.numerator, slope.denominator);
}
static int64_t elu_derivative(int64_t q, int e, RefFraction slope) {
  return q > 0 ? ONE : ref_divide_rne(ref_exp_q30(-q, e) * slope.numerator, slope.denominator);
}

// numerator / denominator in Q30; numerator < 2^32.
static int64_t ratio_q30(int64_t numerator, int64_t denominator) {
  return ((numerator << 30) + denominator / 2) / denominator;
}

// ln(1 + p) in Q30 for p in [0, 1]: 2 artanh(s) of s = p / (2 + p) <= 1/3 by its power series,
// whose rest is below 1e-10.
static int64_t log_above_one_q30(int64_t p) {
  const int64_t s = ratio_q30(p, 2 * ONE + p), square = ref_shift_right_rne(s * s, 30);
  int64_t sum = 0;
  for (int k = 17; k >= 1; k -= 2) sum = ONE / k + ref_shift_right_rne(sum * square, 30);
  return 2 * ref_shift_right_rne(s * sum, 30);
}

// max(x, 0) + ln(1 + e^-|x|).
static int softplus_exponent(int e) { return e > 0 ? e - 30 : -30; }
static int64_t softplus(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const int64_t positive = ref_larger(q, 0);
  const int64_t rest = log_above_one_q30(ref_exp_q30(q < 0 ? -q : q, e));
  if (e > 0) return (positive << 30) + ref_rescale_rne(rest, e);
  return ref_rescale_rne(positive, -(e + 30)) + rest;
}

// tanh(softplus(x)) = part / whole, and 1 - that = rest / whole, in Q30. With n = e^-|x| <= 1: of
// negative x ((1 + n)^2 - 1) / ((1 + n)^2 + 1), else (1 + 2 n) / (1 + 2 n + 2 n^2). All are at most
// 5.
typedef struct Mish {
  int64_t part, rest, whole;
} Mish;

static Mish mish_of(int64_t q, int e) {
  const int64_t n = ref_exp_q30(q < 0 ? -q : q, e), square = ref_shift_right_rne(n * n, 30);
  const int64_t part = q < 0 ? 2 * n + square : ONE + 2 * n;
  const int64_t rest = q < 0 ? 2 * ONE : 2 * square;
  const Mish mish = {part, rest, part + rest};
  return mish;
}
static int64_t mish(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const Mish of = mish_of(q, e);
  return q * ratio_q30(of.part, of.whole);
}
// t + x (1 - t^2) sigmoid(x), of t = tanh(softplus(x)).
static int64_t mish_derivative(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const Mish of = mish_of(q, e);
  const int64_t t = ratio_q30(of.part, of.whole), rest = ratio_q30(of.rest, of.whole);
  const int64_t bend = ref_shift_right_rne(rest * (ONE + t), 30);
  return t + ref_times_x_q30(q, e, ref_shift_right_rne(bend * sigmoid(q, e), 30));
}

static int64_t softplus_derivative(int64_t q, int e, RefFraction slope) {
  (void)slope;
  return sigmoid(q, e);
}

#define THREE (INT64_C(3) << 16)

// (x + 3 / factor) * factor / 6 in Q30, to nearest, for |x| < 3 and a factor of 1 or 2, in units of
// 2^-60: below 6 * 2^60. Anything smaller than a unit is far below half a unit of the result.
static int64_t sixth_q30(int64_t q, int e, int64_t factor) {
  const int64_t x = q * (INT64_C(1) << ((e < -60 ? -60 : e) + 60));
  return ref_divide_rne(x + (INT64_C(3) << 60) / factor, (INT64_C(6) << 30) / factor);
}
static int64_t hard_sigmoid(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const int64_t x = ref_comparable(q, e);
  if (x <= -THREE) return 0;
  if (x >= THREE) return ONE;
  return q == 0 ? ONE / 2 : sixth_q30(q, e, 1);
}
static int64_t hard_sigmoid_derivative(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const int64_t x = ref_comparable(q, e);
  return x > -THREE && x < THREE ? ref_divide_rne(ONE, 6) : 0;
}
static int64_t hard_swish(int64_t q, int e, RefFraction slope) {
  return q * hard_sigmoid(q, e, slope);
}
static int64_t hard_swish_derivative(int64_t q, int e, RefFraction slope) {
  (void)slope;
  const int64_t x = ref_comparable(q, e);
  if (x <= -THREE) return 0;
  if (x >= THREE) return ONE;
  return q == 0 ? ONE / 2 : sixth_q30(q, e, 2);
}

const RefPointFunction ref_hard_sigmoid_function = {q30_exponent, hard_sigmoid,
                                                    hard_sigmoid_derivative, NULL, NULL};
const RefPointFunction ref_hard_swish_function = {product_exponent, hard_swish,
                                                  hard_swish_derivative, NULL, NULL};
const RefPointFunction ref_gelu_function = {product_exponent, gelu, gelu_derivative, NULL, NULL};
const RefPointFunction ref_gelu_tanh_function = {product_exponent, gelu_tanh, gelu_tanh_derivative,
                                                 NULL, NULL};
const RefPointFunction ref_elu_function = {product_exponent, elu, elu_derivative, NULL, NULL};
const RefPointFunction ref_softplus_function = {softplus_exponent, softplus, softplus_derivative,
                                                NULL, NULL};
const RefPointFunction ref_mish_function = {product_exponent, mish, mish_derivative, NULL, NULL};
