// The search for least squared error: optimal if all mantissas can be tried, and never worse than
// its start.
#include "quantise/weights/weight_search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "quantise/weights/test_weights.h"

namespace mantissa::quantise {
namespace {

// The least error over all mantissas, each with its best scale.
double least_error(const std::vector<double>& weights, MantissaRange range) {
  std::vector<int32_t> mantissas(weights.size(), static_cast<int32_t>(range.lo));
  double least = HUGE_VAL;
  while (true) {
    double products = 0, squares = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      products += weights[i] * mantissas[i];
      squares += double{1} * mantissas[i] * mantissas[i];
    }
    const double scale = products > 0 ? products / squares : 0;
    least = std::min(least, squared_error(weights, scale, mantissas));
    size_t i = 0;
    while (i < weights.size() && mantissas[i] == range.hi) {
      mantissas[i++] = static_cast<int32_t>(range.lo);
    }
    if (i == weights.size()) return least;
    mantissas[i] += static_cast<int32_t>(range.step);
  }
}

RC_GTEST_PROP(WeightsMmse, IsTheOptimumOfSmallParts, ()) {
  const int bits = *rc::gen::inRange(1, 5);
  const size_t count = *rc::gen::inRange<size_t>(1, bits == 4 ? 4 : 6);
  const auto weights = *rc::gen::container<std::vector<double>>(count, drawn_number());
  const MantissaRange range = range_of(bits, drawn_convention());
  const auto result = quantised(weights, settings_of(WeightMethod::kMmse, range));
  const double optimum = least_error(weights, range);
  double size = 0;
  for (const double w : weights) size += w * w;
  RC_ASSERT(error_of(weights, result) <= optimum + 1e-14 * size + 1e-70);
}

// Powers of two: the optimum over 40 octaves.
RC_GTEST_PROP(WeightsMmse, IsTheBestPowerOfTwoOfSmallParts, ()) {
  const int bits = *rc::gen::inRange(2, 6);
  const size_t count = *rc::gen::inRange<size_t>(1, 16);
  const auto weights = *rc::gen::container<std::vector<double>>(count, drawn_number());
  const MantissaRange range = range_of(bits, drawn_convention());
  const auto result = quantised(weights, settings_of(WeightMethod::kMmse, range, 1));
  int exponent = 0;
  RC_ASSERT(std::frexp(result.scales[0], &exponent) == 0.5);
  const double error = error_of(weights, result);
  for (int e = -20; e < 20; ++e) {
    RC_ASSERT(error <= error_with_scale(weights, std::ldexp(1, e), range) * (1 + 1e-12));
  }
}

RC_GTEST_PROP(WeightsMmse, IsNeverWorseThanTheUniformQuantiser, ()) {
  const int bits = *rc::gen::elementOf(kAllBits);
  const MantissaRange range = range_of(bits, drawn_convention());
  const auto weights = drawn_weights(*rc::gen::inRange<size_t>(1, 600));
  const int scale_bits = *rc::gen::element(1, 4, 24, 53);
  const double error =
      error_of(weights, quantised(weights, settings_of(WeightMethod::kMmse, range, scale_bits)));
  const auto uniform = settings_of(WeightMethod::kUniform, range, scale_bits);
  RC_ASSERT(error <= error_of(weights, quantised(weights, uniform)));
}

TEST(WeightsMmse, FindsTheBestOfAllScalesOfManyNormalNumbers) {
  const auto weights = normal_numbers(5000, 1);
  for (const int bits : {1, 2, 3, 4, 6, 8}) {
    for (const auto convention : {RangeConvention::kFull, RangeConvention::kSymmetric}) {
      const MantissaRange range = range_of(bits, convention);
      const auto result = quantised(weights, settings_of(WeightMethod::kMmse, range));
      const double error = error_of(weights, result);
      double least = HUGE_VAL;
      for (int i = 1; i < 600; ++i) {
        least = std::min(least, error_with_scale(weights, result.scales[0] * i / 200, range));
      }
      EXPECT_LE(error, least) << bits << " bits";
    }
  }
}

// Numbers whose squared error has several minima: a single start does not find the best one.
TEST(WeightsMmse, DoesNotStayInALocalMinimum) {
  std::vector<double> weights(1000, 0.1);
  for (int i = 0; i < 10; ++i) weights.push_back(1);
  const MantissaRange ternary = range_of(2, RangeConvention::kSymmetric);
  double scale = 1;  // alternating from the uniform scale stays there
  const auto mantissas = *nearest_mantissas(weights, {{scale}}, ternary);
  EXPECT_EQ(squared_error(weights, scale, mantissas), error_with_scale(weights, 1, ternary));
  const auto result = quantised(weights, settings_of(WeightMethod::kMmse, ternary));
  EXPECT_LT(error_of(weights, result), 0.9 * error_with_scale(weights, 1, ternary));
  EXPECT_NEAR(result.scales[0], 110.0 / 1010, 1e-9);
}

}  // namespace
}  // namespace mantissa::quantise
