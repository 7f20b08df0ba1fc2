// Each training method starts with the numbers of post-training quantisation, bit for bit, by its
// own formula; its gradients are those of what it computes.
#include "quantize/starts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "quantize/activations.h"
#include "quantize/elementary.h"
#include "quantize/test_numbers.h"
#include "quantize/weights.h"

namespace mantissa::quantize {
namespace {

const std::vector<TrainingMethod> kMethods = {
    TrainingMethod::kWrpn,    TrainingMethod::kDorefa,
    TrainingMethod::kPact,    TrainingMethod::kHalfWaveGaussian,
    TrainingMethod::kUniform, TrainingMethod::kLsq,
    TrainingMethod::kLsqPlus};

bool has_tangents(TrainingMethod method) {
  return method == TrainingMethod::kDorefa || method == TrainingMethod::kPact;
}
bool is_lsq(TrainingMethod method) {
  return method == TrainingMethod::kLsq || method == TrainingMethod::kLsqPlus;
}

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

// The methods' formulas as their authors have them, with the adjusted start in place.
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
    // Nearest rounding or not (AdaRound), the latent start has the mantissa that it is given.
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

// At the start every weight has a gradient, those with the outermost mantissas among them.
RC_GTEST_PROP(WeightStarts, LetEveryWeightMove, ()) {
  const Case given = drawn_case();
  const WeightForm form = weight_form(given.method, given.range, given.quantised.scales[0]);
  for (size_t i = 0; i < given.weights.size(); ++i) {
    const int64_t q = given.quantised.mantissas[i];
    RC_ASSERT(gradient(form, latent_weight(form, q), 1).weight > 0);
    RC_ASSERT(gradient(form, latent_weight(form, q, given.weights[i]), 1).weight > 0);
  }
}

// The form's value with the rounding of one point kept as it is: there the straight-through
// estimator is a derivative.
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

// A step of -rate * dw on the latent weight moves what the layer computes with by slope^2 times the
// step of training without quantising; divided by it, by that step (METHODS section 3).
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

std::vector<float> drawn_activations() {
  std::vector<float> values;
  for (const double x : drawn_weights(80)) values.push_back(static_cast<float>(x));
  return values;
}

LinearGrid drawn_grid(const std::vector<float>& values, RangeConvention convention) {
  ActivationStatistics statistics;
  statistics.add(values);
  statistics.add(std::vector<float>{*rc::gen::element(-0.75F, 0.0F), 0.5F});
  ActivationSettings settings;
  settings.bits = *rc::gen::elementOf(std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 16});
  settings.convention = convention;
  settings.scale_bits = *rc::gen::element(1, 24);
  return *fit_activations(statistics, settings);
}

double own_activation(TrainingMethod method, double beta, double step, double m, double x,
                      double top) {
  const double shifted = x - m;
  switch (method) {
    case TrainingMethod::kDorefa:  // quantize_k of a number in [0, 1], times beta
      return std::nearbyint(std::clamp(shifted * top / beta, 0.0, top)) * (beta / top) + m;
    case TrainingMethod::kPact: {
      const double y = 0.5 * (std::abs(shifted) - std::abs(shifted - beta) + beta);
      return std::nearbyint(y * top / beta) * (beta / top) + m;
    }
    case TrainingMethod::kHalfWaveGaussian: {  // thresholds between the levels
      double level = 0;
      while (level < top && (shifted > (level + 0.5) * step ||
                             (shifted == (level + 0.5) * step && std::fmod(level, 2) == 1))) {
        ++level;
      }
      return level * step + m;
    }
    case TrainingMethod::kLsq:
    case TrainingMethod::kLsqPlus:
      return std::nearbyint(std::clamp(shifted / step, 0.0, top)) * step + m;
    default:
      return std::nearbyint(std::clamp(shifted, 0.0, beta) * top / beta) * (beta / top) + m;
  }
}

RC_GTEST_PROP(ActivationStarts, GiveTheNumbersOfPostTrainingQuantisation, ()) {
  const auto values = drawn_activations();
  const LinearGrid grid = drawn_grid(values, RangeConvention::kUnsigned);
  const auto top = static_cast<double>(grid.range.hi);
  for (const TrainingMethod method : kMethods) {
    if (method == TrainingMethod::kHalfWaveGaussian && top > 255) continue;  // counts thresholds
    for (const float x : values) {
      const double own = own_activation(method, grid.beta(), grid.scale, grid.offset, x, top);
      RC_ASSERT(own == grid.quantised(x));
    }
  }
}

RC_GTEST_PROP(ActivationGradients, AreThoseOfFiniteDifferences, ()) {
  const auto values = drawn_activations();
  const LinearGrid grid =
      drawn_grid(values, *rc::gen::element(RangeConvention::kUnsigned, RangeConvention::kFull));
  const auto lo = static_cast<double>(grid.range.lo), hi = static_cast<double>(grid.range.hi);
  const double g = -0.75, h = 1e-6 * grid.scale;
  for (const float x : values) {
    const double place = (x - grid.offset) / grid.scale;
    const double near = 1e-3 * std::max(1.0, std::abs(place));
    if (std::abs(place - lo) < near || std::abs(place - hi) < near) continue;  // no derivative
    for (const TrainingMethod method : kMethods) {
      const double rounding =
          is_lsq(method) ? static_cast<double>(grid.mantissa(x)) - std::clamp(place, lo, hi) : 0;
      const auto forward = [&](double number, double scale, double offset) {
        return scale * (std::clamp((number - offset) / scale, lo, hi) + rounding) + offset;
      };
      const auto slope = [&](double dx, double ds, double dm) {
        return (forward(x + dx, grid.scale + ds, grid.offset + dm) -
                forward(x - dx, grid.scale - ds, grid.offset - dm)) /
               (2 * h);
      };
      const ActivationGradient found = gradient(method, grid, x, g);
      const double most = 1e-6 * std::max(1.0, std::abs(place)) * (1 + hi - lo);
      RC_ASSERT(std::abs(found.input - g * slope(h, 0, 0)) <= most);
      RC_ASSERT(std::abs(found.scale - g * slope(0, h, 0)) <= most);
      RC_ASSERT(std::abs(found.offset - g * slope(0, 0, h)) <= most);
    }
  }
}

TEST(ActivationGradients, EndWhereTheTextSays) {
  const LinearGrid grid{0.5, -1, {0, 15}};  // [-1, 6.5]
  const auto text = [&](double x) { return gradient(TrainingMethod::kWrpn, grid, x, 3); };
  EXPECT_EQ(text(-1).input, 3);
  EXPECT_EQ(text(-1).offset, 0);
  EXPECT_EQ(text(6.5).input, 3);
  EXPECT_EQ(text(6.5).scale, 0);
  EXPECT_EQ(text(6.6).input, 0);
  EXPECT_EQ(text(6.6).scale / 15, 3);  // of beta
  EXPECT_EQ(text(6.6).offset, 3);
  EXPECT_EQ(text(-1.1).scale, 0);
  EXPECT_EQ(text(-1.1).offset, 3);
  EXPECT_EQ(gradient(TrainingMethod::kPact, grid, 6.5, 3).input, 0);
  EXPECT_EQ(gradient(TrainingMethod::kPact, grid, 6.5, 3).scale / 15, 3);
  EXPECT_EQ(gradient(TrainingMethod::kHalfWaveGaussian, grid, -1, 3).input, 0);
  EXPECT_EQ(gradient(TrainingMethod::kHalfWaveGaussian, grid, 6.5, 3).input, 3);
  EXPECT_EQ(gradient(TrainingMethod::kLsq, grid, 0.1, 3).scale, 3 * (2 - 1.1 / 0.5));
}

TEST(Starts, TrainWhatTheirMethodsTrain) {
  EXPECT_TRUE(trained_values(TrainingMethod::kWrpn).weight_scale);
  EXPECT_TRUE(trained_values(TrainingMethod::kLsqPlus).activation_offset);
  EXPECT_FALSE(trained_values(TrainingMethod::kLsq).activation_offset);
  EXPECT_TRUE(trained_values(TrainingMethod::kPact).activation_scale);
  EXPECT_FALSE(trained_values(TrainingMethod::kPact).weight_scale);
  EXPECT_FALSE(trained_values(TrainingMethod::kUniform).activation_scale);
  EXPECT_EQ(scale_gradient_factor(400, {0, 4}), 1.0 / 40);
}

// Squared error of half a normal wave.
double half_wave_error(double scale, int bits) {
  const LinearGrid grid{scale, 0, {0, (1 << bits) - 1}};
  const double width = 1.0 / (1 << 16);
  double error = 0;
  for (int i = 0; i < 10 << 16; ++i) {
    const double x = (i + 0.5) * width, difference = x - grid.quantised(x);
    error += difference * difference * std::exp(-x * x / 2) * width;
  }
  return error;
}

TEST(HalfWaveGaussian, ScaleHasTheLeastError) {
  for (int bits = 1; bits <= 8; ++bits) {
    const double scale = half_wave_gaussian_scale(bits);
    const double error = half_wave_error(scale, bits);
    EXPECT_LT(error, half_wave_error(scale * 1.002, bits)) << bits;
    EXPECT_LT(error, half_wave_error(scale / 1.002, bits)) << bits;
  }
}

TEST(Elementary, FunctionsAreThoseOfTheLibrary) {
  for (int i = -4000; i <= 4000; ++i) {
    const double x = i / 200.0, e = std::exp(x);
    EXPECT_NEAR(exponential(x), e, 1e-15 * e);
    EXPECT_NEAR(hyperbolic_tangent(x), std::tanh(x), 1e-15);
    EXPECT_NEAR(natural_logarithm(e), x, 1e-15 * std::max(1.0, std::abs(x)));
    EXPECT_NEAR(area_tangent(i / 4001.0), std::atanh(i / 4001.0), 3e-15);
  }
  EXPECT_EQ(hyperbolic_tangent(1e300), 1);
  EXPECT_EQ(hyperbolic_tangent(-1e300), -1);
}

}  // namespace
}  // namespace mantissa::quantize
