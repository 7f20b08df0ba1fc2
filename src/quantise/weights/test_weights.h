// Quantised weights, for tests.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <vector>

#include "quantise/test_numbers.h"
#include "quantise/weights/weights.h"

namespace mantissa::quantise {

inline const std::vector<int> kAllBits = {1, 2, 3, 4, 5, 6, 7, 8, 16, 24};
// All that fit the scale to the weights.
inline constexpr WeightMethod kAllMethods[] = {WeightMethod::kMmse, WeightMethod::kUniform,
                                               WeightMethod::kPercentile,
                                               WeightMethod::kKullbackLeibler};

inline MantissaRange range_of(int bits, RangeConvention convention) {
  return *mantissa_range(bits, convention);
}

inline WeightSettings settings_of(WeightMethod method, MantissaRange range, int scale_bits = 53) {
  WeightSettings settings;
  settings.method = method;
  settings.range = range;
  settings.scale_bits = scale_bits;
  return settings;
}

inline QuantisedWeights quantised(const std::vector<double>& weights,
                                  const WeightSettings& settings) {
  auto result = quantise_weights(std::span<const double>(weights), settings);
  EXPECT_TRUE(result.ok());
  return *result;
}

inline double error_of(const std::vector<double>& weights, const QuantisedWeights& result) {
  return squared_error(weights, result.scales[0], result.mantissas);
}

inline double error_with_scale(const std::vector<double>& weights, double scale,
                               MantissaRange range) {
  return squared_error(weights, scale, *nearest_mantissas(weights, {{scale}}, range));
}

inline RangeConvention drawn_convention() {
  return *rc::gen::element(RangeConvention::kFull, RangeConvention::kSymmetric);
}

}  // namespace mantissa::quantise
