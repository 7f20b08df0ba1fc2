// Each training method starts with the numbers of post-training quantisation, bit for bit, by its
// own formula. Its gradients are the gradients of what it computes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "quantise/activations/activations.h"
#include "quantise/starts.h"
#include "quantise/test_methods.h"
#include "quantise/test_numbers.h"

namespace mantissa::quantise {
namespace {

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

}  // namespace
}  // namespace mantissa::quantise
