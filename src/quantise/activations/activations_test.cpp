// Grids of activations from statistics of calibration inputs.
#include "quantise/activations/activations.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "quantise/activations/test_activations.h"

namespace mantissa::quantise {
namespace {

// As after a ReLU.
Input without_sign(std::vector<double> numbers) {
  Input input;
  for (const double number : numbers) input.push_back(static_cast<float>(std::max(number, 0.0)));
  return input;
}

LinearGrid fitted(const ActivationStatistics& statistics, const ActivationSettings& settings) {
  const auto grid = fit_activations(statistics, settings);
  EXPECT_TRUE(grid.ok());
  return *grid;
}

double error_of(const std::vector<double>& values, const LinearGrid& grid) {
  double error = 0;
  for (const double x : values) error += (x - grid.quantised(x)) * (x - grid.quantised(x));
  return error;
}

TEST(Activations, UpToTheLargest) {
  const auto statistics = statistics_of({{-1, 0, 2}, {-3, 5, 1}});
  ActivationSettings settings;
  settings.method = ActivationMethod::kMinMax;
  settings.bits = 4;
  LinearGrid grid = fitted(statistics, settings);
  EXPECT_EQ(grid.offset, -2);
  EXPECT_GE(grid.beta(), 7);
  EXPECT_LT(grid.beta(), 7 * (1 + 0x1p-22));
  settings.offset = OffsetRule::kMinimum;
  grid = fitted(statistics, settings);
  EXPECT_EQ(grid.offset, -3);
  EXPECT_NEAR(grid.beta(), 8, 1e-5);
  settings.convention = RangeConvention::kFull;
  grid = fitted(statistics, settings);
  EXPECT_EQ(grid.offset, 0);
  EXPECT_EQ(grid.range, (MantissaRange{-8, 7}));
  EXPECT_NEAR(grid.scale, 5.0 / 7, 1e-6);
  settings.scale_bits = 1;
  EXPECT_EQ(fitted(statistics, settings).scale, 1);
}

TEST(Activations, AWholeOffsetHasZeroOnTheGrid) {
  const auto statistics = statistics_of({{-1.3F, 0, 2.7F}, {-0.9F, 5.1F, 1}});
  for (const auto method : {ActivationMethod::kMmse, ActivationMethod::kMinMax}) {
    ActivationSettings settings;
    settings.method = method;
    settings.bits = 3;
    settings.whole_offset = true;
    const LinearGrid grid = fitted(statistics, settings);
    EXPECT_EQ(grid.quantised(0), 0);
    EXPECT_EQ(std::remainder(grid.offset, grid.scale), 0);
    EXPECT_NE(grid.offset, 0);
  }
}

RC_GTEST_PROP(ActivationsMmse, AreNeverWorseThanOtherMethods, ()) {
  ActivationSettings settings;
  settings.bits = *rc::gen::elementOf(std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 16});
  settings.convention = *rc::gen::element(RangeConvention::kUnsigned, RangeConvention::kFull,
                                          RangeConvention::kSymmetric);
  settings.scale_bits = *rc::gen::element(1, 8, 24);
  settings.whole_offset = *rc::gen::arbitrary<bool>();
  std::vector<Input> inputs = {drawn_input(), drawn_input()};
  const auto statistics = statistics_of(inputs);
  const double error = squared_error(statistics, fitted(statistics, settings));
  for (const auto method : {ActivationMethod::kMinMax, ActivationMethod::kPercentile,
                            ActivationMethod::kKullbackLeibler}) {
    settings.method = method;
    RC_ASSERT(error <= squared_error(statistics, fitted(statistics, settings)));
  }
}

TEST(ActivationsMmse, FindTheBestOfAllScales) {
  std::vector<double> values;
  ActivationStatistics statistics;
  for (int i = 0; i < 50; ++i) {
    std::vector<int8_t> mantissas;
    for (const double x : normal_numbers(200, i)) {
      mantissas.push_back(static_cast<int8_t>(std::max(std::floor(x * 30), 0.0)));
      values.push_back(mantissas.back() * 0x1p-5);
    }
    statistics.add(mantissas, -5);
  }
  for (const int bits : {1, 2, 3, 4, 6}) {
    ActivationSettings settings;
    settings.bits = bits;
    const LinearGrid grid = fitted(statistics, settings);
    EXPECT_EQ(grid.offset, 0);
    const double error = error_of(values, grid);
    EXPECT_NEAR(squared_error(statistics, grid), error, 1e-9 * error);
    for (int i = 1; i < 400; ++i) {
      LinearGrid other = grid;
      other.scale = grid.scale * i / 150;
      EXPECT_LE(error, error_of(values, other) * 1.001) << bits << " bits, " << i << "/150";
    }
  }
}

// A cell stands for its numbers: for floats the error of the histogram is nearly the true error.
TEST(ActivationsMmse, OfFloatsAreNearlyThoseOfTheNumbers) {
  const Input input = without_sign(normal_numbers(20000, 4));
  const std::vector<double> values(input.begin(), input.end());
  const auto statistics = statistics_of({input});
  for (const int bits : {2, 4, 8}) {
    ActivationSettings settings;
    settings.bits = bits;
    const LinearGrid grid = fitted(statistics, settings);
    const double error = error_of(values, grid);
    EXPECT_NEAR(squared_error(statistics, grid), error, 0.02 * error);
    settings.method = ActivationMethod::kMinMax;
    EXPECT_LT(error, error_of(values, fitted(statistics, settings)));
  }
}

TEST(ActivationsPercentile, ClipsAtMostSoMany) {
  std::vector<int8_t> mantissas;
  for (int i = 0; i < 10000; ++i) mantissas.push_back(static_cast<int8_t>(i % 100));
  ActivationStatistics statistics;
  statistics.add(mantissas, 0);
  ActivationSettings settings;
  settings.method = ActivationMethod::kPercentile;
  for (const auto& [clipped, largest] :
       {std::pair(0.0, 99), {0.0099, 99}, {0.01, 98}, {0.025, 97}, {0.5, 49}}) {
    settings.clipped = clipped;
    EXPECT_NEAR(fitted(statistics, settings).beta(), largest, 1e-4) << clipped;
  }
}

TEST(ActivationsKullbackLeibler, ClipOutliers) {
  Input input = without_sign(normal_numbers(20000, 6));
  input.push_back(60);
  ActivationSettings settings;
  settings.method = ActivationMethod::kKullbackLeibler;
  const double beta = fitted(statistics_of({input}), settings).beta();
  EXPECT_LT(beta, 10);
  EXPECT_GT(beta, 2);
}

// The formula of the text, in its order, gives the same bits: beta and beta / N are exact.
RC_GTEST_PROP(Activations, AreQuantisedByTheFormulaOfTheText, ()) {
  ActivationSettings settings;
  settings.bits = *rc::gen::inRange(1, 9);
  settings.whole_offset = *rc::gen::arbitrary<bool>();
  const Input input = drawn_input();
  const LinearGrid grid = fitted(statistics_of({input, drawn_input()}), settings);
  const double steps = std::ldexp(1, settings.bits) - 1, beta = grid.beta(), m = grid.offset;
  RC_ASSERT(beta / steps == grid.scale);
  for (const float x : input) {
    const double clipped = std::clamp(x - m, 0.0, beta);
    RC_ASSERT(std::nearbyint(clipped * steps / beta) * beta / steps + m == grid.quantised(x));
  }
}

TEST(Activations, WithNothingAboveTheOffset) {
  ActivationSettings settings;
  for (const auto& input : {Input{0, 0}, Input{-2, -2}}) {
    const LinearGrid grid = fitted(statistics_of({input}), settings);
    EXPECT_EQ(grid.scale, 1);
    EXPECT_EQ(grid.quantised(input[0]), input[0]);
  }
}

TEST(Activations, RefuseWhatCannotBeQuantised) {
  const ActivationSettings settings;
  EXPECT_FALSE(fit_activations({}, settings).ok());
  EXPECT_FALSE(fit_activations(statistics_of({{}}), settings).ok());
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    auto refused = fit_activations(statistics_of({{1, bad}, {bad}, {2}}), settings);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message, "2 activations of the calibration are not finite");
  }
  const auto statistics = statistics_of({{1, 2}});
  const auto fails = [&](auto change) {
    ActivationSettings changed;
    change(changed);
    return !fit_activations(statistics, changed).ok();
  };
  EXPECT_TRUE(fails([](ActivationSettings& s) { s.bits = 9; }));
  EXPECT_TRUE(fails([](ActivationSettings& s) { s.scale_bits = 25; }));
  EXPECT_TRUE(fails([](ActivationSettings& s) { s.clipped = -1; }));
}

}  // namespace
}  // namespace mantissa::quantise
