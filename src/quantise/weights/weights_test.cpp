// The quantisers of weights: the same for numbers times a power of two, part by part; and refusals.
#include "quantise/weights/weights.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "quantise/weights/test_weights.h"

namespace mantissa::quantise {
namespace {

TEST(MantissaRange, IsThatOfTheText) {
  EXPECT_EQ(range_of(4, RangeConvention::kFull), (MantissaRange{-8, 7}));
  EXPECT_EQ(range_of(4, RangeConvention::kSymmetric), (MantissaRange{-7, 7}));
  EXPECT_EQ(range_of(4, RangeConvention::kUnsigned), (MantissaRange{0, 15}));
  EXPECT_EQ(range_of(1, RangeConvention::kFull), (MantissaRange{-1, 0}));
  EXPECT_EQ(range_of(1, RangeConvention::kSymmetric), (MantissaRange{-1, 1, 2}));
  EXPECT_EQ(range_of(1, RangeConvention::kSymmetric).levels(), 2);
  EXPECT_EQ(range_of(24, RangeConvention::kFull).levels(), 1 << 24);
  for (const int bits : {-1, 0, 9, 15, 17, 23, 25, 32}) {
    EXPECT_FALSE(mantissa_range(bits, RangeConvention::kFull).ok()) << bits;
  }
}

TEST(NearestMantissa, RoundsTiesToEvenAndClips) {
  const MantissaRange range = {-8, 7};
  EXPECT_EQ(nearest_mantissa(0.5, range), 0);
  EXPECT_EQ(nearest_mantissa(1.5, range), 2);
  EXPECT_EQ(nearest_mantissa(-2.5, range), -2);
  EXPECT_EQ(nearest_mantissa(std::nextafter(2.5, 3), range), 3);
  EXPECT_EQ(nearest_mantissa(1e300, range), 7);
  EXPECT_EQ(nearest_mantissa(-HUGE_VAL, range), -8);
  const MantissaRange signs = {-1, 1, 2};
  EXPECT_EQ(nearest_mantissa(-0.0, signs), 1);
  EXPECT_EQ(nearest_mantissa(-1e-300, signs), -1);
}

RC_GTEST_PROP(Weights, TimesAPowerOfTwoHaveTheSameMantissas, ()) {
  const MantissaRange range = range_of(*rc::gen::elementOf(kAllBits), drawn_convention());
  auto weights = drawn_weights(*rc::gen::inRange<size_t>(1, 200));
  const int exponent = *rc::gen::inRange(-60, 60);
  for (const WeightMethod method : kAllMethods) {
    if (method == WeightMethod::kKullbackLeibler && range.levels() <= 2) continue;
    weights.push_back(-1);  // something that every range has
    const auto before = quantised(weights, settings_of(method, range));
    auto scaled = weights;
    for (double& w : scaled) w = std::ldexp(w, exponent);
    const auto after = quantised(scaled, settings_of(method, range));
    RC_ASSERT(after.mantissas == before.mantissas);
    RC_ASSERT(after.scales[0] == std::ldexp(before.scales[0], exponent));
  }
}

RC_GTEST_PROP(Weights, OfOtherSignHaveMantissasOfOtherSign, ()) {
  const int bits = *rc::gen::elementOf(kAllBits);
  const MantissaRange range = range_of(bits, RangeConvention::kSymmetric);
  auto weights = drawn_weights(*rc::gen::inRange<size_t>(1, 200));
  std::erase(weights, 0.0);  // its sign in {-1, +1} is +1
  if (weights.empty()) weights = {1};
  for (const WeightMethod method : kAllMethods) {
    if (method == WeightMethod::kKullbackLeibler && bits == 1) continue;
    const auto before = quantised(weights, settings_of(method, range));
    auto negative = weights;
    for (double& w : negative) w = -w;
    const auto after = quantised(negative, settings_of(method, range));
    RC_ASSERT(after.scales == before.scales);
    for (size_t i = 0; i < weights.size(); ++i) {
      RC_ASSERT(after.mantissas[i] == -before.mantissas[i]);
    }
  }
}

RC_GTEST_PROP(Weights, OfPartsAreThoseOfEachAlone, ()) {
  const size_t parts = *rc::gen::inRange<size_t>(1, 6), length = *rc::gen::inRange<size_t>(1, 50);
  const auto weights = drawn_weights(parts * length);
  auto settings =
      settings_of(*rc::gen::elementOf(std::vector(std::begin(kAllMethods), std::end(kAllMethods))),
                  range_of(4, RangeConvention::kFull));
  settings.parts = static_cast<int64_t>(parts);
  const auto all = quantised(weights, settings);
  settings.parts = 1;
  for (size_t part = 0; part < parts; ++part) {
    const std::vector<double> alone(
        weights.begin() + static_cast<std::ptrdiff_t>(part * length),
        weights.begin() + static_cast<std::ptrdiff_t>((part + 1) * length));
    const auto one = quantised(alone, settings);
    RC_ASSERT(one.scales[0] == all.scales[part]);
    for (size_t i = 0; i < length; ++i) {
      RC_ASSERT(one.mantissas[i] == all.mantissas[part * length + i]);
    }
  }
}

RC_GTEST_PROP(Weights, MantissasAreThoseOfTheScale, ()) {
  const MantissaRange range = range_of(*rc::gen::elementOf(kAllBits), drawn_convention());
  const auto weights = drawn_weights(*rc::gen::inRange<size_t>(1, 200));
  const auto result = quantised(weights, settings_of(WeightMethod::kMmse, range));
  if (result.scales[0] == 1) return;  // nothing for the range
  RC_ASSERT(result.mantissas == *nearest_mantissas(weights, result.scales, range));
  const std::vector<float> floats(weights.begin(), weights.end());
  const std::vector<double> doubles(floats.begin(), floats.end());
  const auto of_floats =
      quantise_weights(std::span<const float>(floats), settings_of(WeightMethod::kMmse, range));
  const auto of_doubles = quantised(doubles, settings_of(WeightMethod::kMmse, range));
  RC_ASSERT(of_floats->mantissas == of_doubles.mantissas);
  RC_ASSERT(of_floats->scales == of_doubles.scales);
}

TEST(WeightsUniform, ClipsNothing) {
  const std::vector<double> weights = {-3, 1, 14, 7};
  const auto symmetric = quantised(
      weights, settings_of(WeightMethod::kUniform, range_of(4, RangeConvention::kSymmetric)));
  EXPECT_EQ(symmetric.scales[0], 2);
  EXPECT_EQ(symmetric.mantissas, (std::vector<int32_t>{-2, 0, 7, 4}));
  const auto full = quantised(
      {-16, 1, 7}, settings_of(WeightMethod::kUniform, range_of(4, RangeConvention::kFull)));
  EXPECT_EQ(full.scales[0], 2);
  EXPECT_EQ(full.mantissas, (std::vector<int32_t>{-8, 0, 4}));
}

TEST(WeightsPercentile, ClipsAtMostSoMany) {
  std::vector<double> weights;
  for (int i = 1; i <= 1000; ++i) weights.push_back(i % 2 == 0 ? i : -i);
  auto settings = settings_of(WeightMethod::kPercentile, range_of(8, RangeConvention::kSymmetric));
  for (const double clipped : {0.0, 0.0005, 0.001, 0.01, 0.5}) {
    settings.clipped = clipped;
    EXPECT_EQ(quantised(weights, settings).scales[0], (1000 - std::floor(clipped * 1000)) / 127);
  }
}

TEST(WeightsKullbackLeibler, ClipsFewOutliersAndNothingOfEvenNumbers) {
  auto settings =
      settings_of(WeightMethod::kKullbackLeibler, range_of(8, RangeConvention::kSymmetric));
  auto weights = normal_numbers(20000, 2);
  weights.push_back(100);
  const double scale = quantised(weights, settings).scales[0];
  EXPECT_LT(scale * 127, 8);
  EXPECT_GT(scale * 127, 2);
  std::vector<double> even;
  for (int i = 0; i < 20480; ++i) even.push_back((i + 0.5) / 20480);
  EXPECT_NEAR(quantised(even, settings).scales[0] * 127, 1, 1e-3);
}

TEST(Weights, TheUnitGridIsFromMinusOneToOne) {
  const auto settings = settings_of(WeightMethod::kUnit, range_of(4, RangeConvention::kSymmetric));
  for (const double most : {0x1p-40, 0.3, 1.0, 90.0}) {
    EXPECT_EQ(quantised({most, -most / 2}, settings).scales[0], 1.0 / 7) << most;
  }
  EXPECT_EQ(quantised({0.05, -0.1, 0.5, -9}, settings).mantissas,
            (std::vector<int32_t>{0, -1, 4, -7}));
}

TEST(Weights, WithoutAnythingForTheRange) {
  for (const WeightMethod method : kAllMethods) {
    const auto settings = settings_of(method, range_of(4, RangeConvention::kFull));
    for (const double tiny : {0.0, -0.0, 5e-324, 0x1p-127, -0x1p-1000}) {
      const auto result = quantised({tiny, tiny}, settings);
      EXPECT_EQ(result.scales[0], 1);
      EXPECT_EQ(result.mantissas, (std::vector<int32_t>{0, 0}));
    }
  }
  const auto one_bit = settings_of(WeightMethod::kMmse, range_of(1, RangeConvention::kFull));
  EXPECT_EQ(quantised({1, 2}, one_bit).mantissas, (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(quantised({1, -2}, one_bit).mantissas, (std::vector<int32_t>{0, -1}));
  EXPECT_EQ(quantised({1, -2}, one_bit).scales[0], 2);
  const auto signs = settings_of(WeightMethod::kMmse, range_of(1, RangeConvention::kSymmetric));
  EXPECT_EQ(quantised({0, 0}, signs).scales[0], 0x1p-126);
  EXPECT_EQ(quantised({0, 0}, signs).mantissas, (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(quantised({-1, 3}, signs).scales[0], 2);
}

TEST(Weights, OfAllSizesThatFloatsHave) {
  for (const int bits : kAllBits) {
    const auto range = range_of(bits, RangeConvention::kSymmetric);
    const auto result = quantised({0x1.fp127, -0x1p-126, 0x1p-149, 0x1p100},
                                  settings_of(WeightMethod::kMmse, range));
    EXPECT_TRUE(std::isfinite(result.scales[0]) && result.scales[0] > 0) << bits;
    const auto one = quantised({-0x1p-126}, settings_of(WeightMethod::kMmse, range));
    EXPECT_EQ(one.scales[0] * one.mantissas[0], -0x1p-126) << bits;
  }
}

TEST(Weights, RefusesWhatCannotBeQuantised) {
  const auto settings = settings_of(WeightMethod::kMmse, range_of(4, RangeConvention::kFull));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, 0x1p128}) {
    const std::vector<double> weights = {1, bad, 2};
    auto result = quantise_weights(std::span<const double>(weights), settings);
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.error().message.find("number 1"), std::string::npos);
  }
  const std::vector<double> weights = {1, 2, 3};
  const auto refused = [&](auto change) {
    WeightSettings changed = settings;
    change(changed);
    return !quantise_weights(std::span<const double>(weights), changed).ok();
  };
  EXPECT_TRUE(refused([](WeightSettings& s) { s.parts = 2; }));
  EXPECT_TRUE(refused([](WeightSettings& s) { s.parts = 0; }));
  EXPECT_TRUE(refused([](WeightSettings& s) { s.scale_bits = 0; }));
  EXPECT_TRUE(refused([](WeightSettings& s) { s.scale_bits = 54; }));
  EXPECT_TRUE(refused([](WeightSettings& s) { s.clipped = 1; }));
  EXPECT_TRUE(refused([](WeightSettings& s) { s.clipped = std::nan(""); }));
  EXPECT_TRUE(refused([](WeightSettings& s) { s.range = {1, 4}; }));
  EXPECT_TRUE(refused([](WeightSettings& s) { s.range = {0, 0}; }));
  EXPECT_TRUE(refused([](WeightSettings& s) {
    s.method = WeightMethod::kKullbackLeibler;
    s.range = {-1, 0};
  }));
  EXPECT_FALSE(nearest_mantissas(weights, {}, settings.range).ok());
  EXPECT_FALSE(nearest_mantissas(weights, {{0.0}}, settings.range).ok());
}

TEST(Scales, HaveSoManyBits) {
  EXPECT_EQ(nearest_scale(0.7, 1), 0.5);
  EXPECT_EQ(nearest_scale(0.8, 1), 1);
  EXPECT_EQ(scale_below(0.99, 1), 0.5);
  EXPECT_EQ(scale_above(0.51, 1), 1);
  EXPECT_EQ(nearest_scale(0.1, 24), 0.1F);
  for (const int bits : {1, 2, 24, 53}) EXPECT_EQ(nearest_scale(0x1p-30, bits), 0x1p-30);
}

}  // namespace
}  // namespace mantissa::quantise
