// Each training method starts with the numbers of post-training quantisation, bit for bit, by its
// own formula. Its gradients are the gradients of what it computes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "quantise/starts.h"
#include "quantise/test_methods.h"
#include "quantise/test_numbers.h"
#include "quantise/weights/weights.h"

namespace mantissa::quantise {
namespace {

struct Case {
  TrainingMethod method;
  int bits;
  MantissaRange range;
  std::vector<double> weights;
  QuantisedWeights quantised;
};

Case drawn_case() {
  Case result;
  result.method = *rc::gen::elementOf(kMethods);
  result.bits = *rc::gen::elementOf(std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 16, 24});
  result.range = *mantissa_range(
      result.bits, *rc::gen::element(RangeConvention::kFull, RangeConvention::kSymmetric));
  result.weights = drawn_weights(*rc::gen::inRange<size_t>(1, 100));
  WeightSettings settings;
  settings.range = result.range;
  settings.method = *rc::gen::element(WeightMethod::kMmse, WeightMethod::kUniform);
  settings.scale_bits = *rc::gen::element(1, 24);
  result.quantised = *quantise_weights(std::span<const double>(result.weights), settings);
  return result;
}

// The methods' formulas as their authors write them, with the adjusted start.
double by_own_formula(const WeightForm& form, int bits, double w) {
  const auto lo = static_cast<double>(form.range.lo), hi = static_cast<double>(form.range.hi);
  if (has_tangents(form.method)) {
    const double steps = static_cast<double>(form.range.levels() - 1);
    const double r = std::tanh(w) / (2 * form.largest_tangent) + 0.5;
    const double level = std::nearbyint(r * steps);
    return form.scale * (lo + level * (hi - lo) / steps);
  }
  if (form.method == TrainingMethod::kWrpn) {
    const double n = std::ldexp(1, bits - 1);
    if (form.range.step == 2) return form.scale * (w >= 0 ? 1 : -1);
    return form.scale * (std::clamp(std::nearbyint(w * n), lo, hi) / n);
  }
  if (form.range.step == 2) return form.scale * (w >= 0 ? 1 : -1);
  return std::nearbyint(std::clamp(w / form.scale, lo, hi)) * form.scale;
}

RC_GTEST_PROP(WeightStarts, GiveTheNumbersOfPostTrainingQuantisation, ()) {
  const Case given = drawn_case();
  const double alpha = given.quantised.scales[0];
  const WeightForm form = weight_form(given.method, given.range, alpha);
  RC_ASSERT(alpha_of(form) == alpha);
  for (size_t i = 0; i < given.weights.size(); ++i) {
    const int32_t mantissa = given.quantised.mantissas[i];
    const double expected = alpha * mantissa;
    const double start = latent_weight(form, mantissa);
    RC_ASSERT(form.mantissa(start) == mantissa);
    RC_ASSERT(form.quantised(start) == expected);
    RC_ASSERT(by_own_formula(form, given.bits, start) == expected);
    // Whether rounded to nearest or not (AdaRound), the latent start rounds to the given mantissa.
    for (const int other : {-1, 0, 1}) {
      const int64_t q =
          std::clamp(mantissa + other * given.range.step, given.range.lo, given.range.hi);
      const double latent = latent_weight(form, q, given.weights[i]);
      RC_ASSERT(form.mantissa(latent) == q);
      RC_ASSERT(by_own_formula(form, given.bits, latent) == alpha * static_cast<double>(q));
    }
  }
}

TEST(WeightStarts, KeepWhatLiesBetweenMantissas) {
  const MantissaRange range = {-8, 7};
  for (const TrainingMethod method : kMethods) {
    const WeightForm form = weight_form(method, range, 0.25);
    const double whole = latent_weight(form, 3), above = latent_weight(form, 3, 0.8);
    EXPECT_GT(above, whole);
    EXPECT_LT(above, latent_weight(form, 4));
    if (!has_tangents(method) && method != TrainingMethod::kWrpn) {
      EXPECT_EQ(above, 0.8);
    }
  }
  EXPECT_EQ(latent_weight(weight_form(TrainingMethod::kWrpn, range, 0.25), 3, 0.8), 0.8 / 2);
  EXPECT_EQ(latent_weight(weight_form(TrainingMethod::kLsq, range, 0.25), 7, 9), 7 * 0.25);
}

// At the start every weight has a gradient, also those with the outermost mantissas.
RC_GTEST_PROP(WeightStarts, LetEveryWeightMove, ()) {
  const Case given = drawn_case();
  const WeightForm form = weight_form(given.method, given.range, given.quantised.scales[0]);
  for (size_t i = 0; i < given.weights.size(); ++i) {
    const int64_t q = given.quantised.mantissas[i];
    RC_ASSERT(gradient(form, latent_weight(form, q), 1).weight > 0);
    RC_ASSERT(gradient(form, latent_weight(form, q, given.weights[i]), 1).weight > 0);
  }
}

// The form's value with the rounding of one point held fixed: then the straight-through estimator
// is a derivative.
double with_rounding_of(const WeightForm& at, double point, const WeightForm& form, double w,
                        int bits) {
  const auto q = static_cast<double>(at.mantissa(point));
  const auto lo = static_cast<double>(at.range.lo), hi = static_cast<double>(at.range.hi);
  if (has_tangents(at.method)) {
    const auto place = [&](double x) {
      return lo + (hi - lo) * (std::tanh(x) / (2 * at.largest_tangent) + 0.5);
    };
    return form.scale * (q + place(w) - place(point));
  }
  if (at.method == TrainingMethod::kWrpn) {
    const double n = std::ldexp(1, bits - 1);
    return form.scale * ((q + w * n - point * n) / n);
  }
  return form.scale * (q + w / form.scale - point / at.scale);
}

RC_GTEST_PROP(WeightGradients, AreThoseOfFiniteDifferences, ()) {
  const auto method = *rc::gen::elementOf(kMethods);
  const int bits = *rc::gen::inRange(2, 9);
  const MantissaRange range = *mantissa_range(bits, RangeConvention::kFull);
  const double alpha = std::ldexp(*rc::gen::inRange(1, 1000), -9), g = 1.5;
  const WeightForm form = weight_form(method, range, alpha);
  const double place =
      static_cast<double>(range.lo) + static_cast<double>(range.hi - range.lo) *
                                          uniform_number(1, *rc::gen::inRange<uint64_t>(0, 100000));
  // Any weight inside the range.
  double w = place * alpha;
  if (method == TrainingMethod::kWrpn) w = std::ldexp(place, 1 - bits);
  if (has_tangents(method)) w = place / static_cast<double>(-range.lo);
  const WeightGradient found = gradient(form, w, g);
  const double h = 1e-6;
  const double by_weight = (with_rounding_of(form, w, form, w + h, bits) -
                            with_rounding_of(form, w, form, w - h, bits)) /
                           (2 * h);
  RC_ASSERT(std::abs(found.weight - g * by_weight) <= 1e-6 * (1 + std::abs(found.weight)));
  WeightForm more = form, less = form;
  more.scale += h * alpha;
  less.scale -= h * alpha;
  double by_scale = 0;
  if (is_lsq(method)) {
    by_scale =
        (with_rounding_of(form, w, more, w, bits) - with_rounding_of(form, w, less, w, bits)) /
        (2 * h * alpha);
  } else {  // mantissas do not move with the scale
    const int64_t q = form.mantissa(w);
    by_scale = (more.value(q) - less.value(q)) / (2 * h * alpha);
  }
  RC_ASSERT(std::abs(found.scale - g * by_scale) <= 1e-6 * (1 + std::abs(found.scale)));
}

TEST(WeightGradients, EndWhereTheTextSays) {
  const WeightForm wrpn = weight_form(TrainingMethod::kWrpn, {-8, 7}, 0.5);
  EXPECT_EQ(wrpn.scale, 4);
  EXPECT_EQ(gradient(wrpn, 1, 2).weight, 8);
  EXPECT_EQ(gradient(wrpn, -1, 2).weight, 8);
  EXPECT_EQ(gradient(wrpn, std::nextafter(1, 2), 2).weight, 0);
  EXPECT_EQ(gradient(wrpn, std::nextafter(-1, -2), 2).weight, 0);
  EXPECT_EQ(gradient(wrpn, 1, 2).scale, 2 * 7 / 8.0);
  const WeightForm lsq = weight_form(TrainingMethod::kLsq, {-8, 7}, 0.5);
  EXPECT_EQ(gradient(lsq, 3.5, 2).weight, 2);
  EXPECT_EQ(gradient(lsq, 3.5, 2).scale, 0);
  EXPECT_EQ(gradient(lsq, 3.6, 2).weight, 0);
  EXPECT_EQ(gradient(lsq, 3.6, 2).scale, 14);
  EXPECT_EQ(gradient(lsq, -9, 2).scale, -16);
  EXPECT_EQ(gradient(lsq, 0.6, 1).scale, 1 - 0.6 / 0.5);
}

// A step of -rate * dw on the latent weight moves the weight that the layer computes with by
// slope^2 times the step of training without quantising. Divided by slope^2 the two are equal
// (METHODS section 3).
TEST(WeightSteps, DividedByTheSquaredSlopeAreThoseOfTheWeightItself) {
  const MantissaRange range = {-8, 7};
  const double rate = 1e-5, g = 0.7;
  for (const TrainingMethod method : kMethods) {
    for (const double alpha : {0.0078125, 3.0}) {
      const WeightForm form = weight_form(method, range, alpha);
      const double w = has_tangents(method) ? 0 : latent_weight(form, 1);
      const double dw = gradient(form, w, g).weight;
      const auto moved = [&](double step) {
        return with_rounding_of(form, w, form, w - step, 4) - form.quantised(w);
      };
      const double slope = squared_slope(form);
      EXPECT_NEAR(moved(rate * dw) / (-rate * g * slope), 1, 1e-3);
      EXPECT_NEAR(moved(rate * dw / slope) / (-rate * g), 1, 1e-3);
    }
  }
  const WeightForm wrpn = weight_form(TrainingMethod::kWrpn, range, 0.0078125);
  EXPECT_EQ(squared_slope(wrpn), 0.0625 * 0.0625);
}

}  // namespace
}  // namespace mantissa::quantise
