// Equalised layers compute the same and have equal ranges; corrected biases give equal means.
#include "quantise/weights/equalise.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "quantise/test_numbers.h"
#include "quantise/weights/weights.h"

namespace mantissa::quantise {
namespace {

// Two linear layers with a ReLU between.
struct Layers {
  size_t inputs, channels, outputs;
  std::vector<double> first, bias, second;

  std::vector<double> forward(const std::vector<double>& x) const {
    std::vector<double> result(outputs);
    for (size_t c = 0; c < channels; ++c) {
      double sum = bias[c];
      for (size_t i = 0; i < inputs; ++i) sum += first[c * inputs + i] * x[i];
      for (size_t o = 0; o < outputs; ++o) {
        result[o] += second[o * channels + c] * std::max(sum, 0.0);
      }
    }
    return result;
  }
  Result<std::vector<double>> equalise(bool powers_of_two) {
    const auto count = static_cast<int64_t>(channels);
    return equalise_channels({first, count, static_cast<int64_t>(inputs)}, {bias, count, 1},
                             {second, count, 1}, powers_of_two);
  }
};

// Channels of very different size.
Layers drawn_layers(uint64_t seed) {
  Layers layers{
      5, 7, 3, normal_numbers(35, seed), normal_numbers(7, seed + 1), normal_numbers(21, seed + 2)};
  for (size_t k = 0; k < 35; ++k) layers.first[k] *= std::exp(1.5 * static_cast<double>(k / 5) - 4);
  return layers;
}

double largest_of(const std::vector<double>& numbers, size_t begin, size_t count, size_t stride) {
  double most = 0;
  for (size_t i = 0; i < count; ++i) most = std::max(most, std::abs(numbers[begin + i * stride]));
  return most;
}

RC_GTEST_PROP(EqualiseChannels, ComputeTheSameWithEqualRanges, ()) {
  const uint64_t seed = *rc::gen::inRange(0, 1000);
  const bool powers_of_two = *rc::gen::arbitrary<bool>();
  const Layers before = drawn_layers(seed);
  Layers after = before;
  const auto factors = after.equalise(powers_of_two);
  RC_ASSERT(factors.ok());
  for (size_t c = 0; c < before.channels; ++c) {
    const double ratio = largest_of(after.first, c * 5, 5, 1) / largest_of(after.second, c, 3, 7);
    RC_ASSERT(std::abs(std::log2(ratio)) <= (powers_of_two ? 1.2 : 1e-9));
  }
  const auto x = normal_numbers(5, seed + 3);
  const auto expected = before.forward(x), found = after.forward(x);
  for (size_t o = 0; o < expected.size(); ++o) {
    if (powers_of_two) {
      RC_ASSERT(found[o] == expected[o]);
    } else {
      RC_ASSERT(std::abs(found[o] - expected[o]) <= 1e-9 * (1 + std::abs(expected[o])));
    }
  }
}

TEST(EqualiseChannels, LetsOneScaleServeAllChannels) {
  Layers layers = drawn_layers(3);
  for (size_t k = 0; k < 21; ++k) layers.second[k] *= std::exp(-1.5 * static_cast<double>(k % 7));
  const auto relative_error = [](const std::vector<double>& weights) {
    WeightSettings settings;
    settings.range = {-8, 7};
    const auto result = *quantise_weights(std::span<const double>(weights), settings);
    double error = 0;  // of each channel, by its size
    for (size_t c = 0; c < 7; ++c) {
      const std::span<const double> channel(weights.data() + 5 * c, 5);
      const std::span<const int32_t> mantissas(result.mantissas.data() + 5 * c, 5);
      double size = 0;
      for (const double w : channel) size += w * w;
      error += squared_error(channel, result.scales[0], mantissas) / size;
    }
    return error;
  };
  const double before = relative_error(layers.first);
  ASSERT_TRUE(layers.equalise(false).ok());
  EXPECT_LT(relative_error(layers.first), 0.1 * before);
}

TEST(EqualiseChannels, OfDepthwiseWeightsAndOfZeros) {
  std::vector<double> first = {4, -16, 0, 0}, second = {1, 0.5, -0.25, 1};
  const auto factors = equalise_channels({first, 2, 2}, {}, {second, 2, 2}, false);
  ASSERT_TRUE(factors.ok());
  EXPECT_EQ(*factors, (std::vector<double>{4, 1}));
  EXPECT_EQ(first, (std::vector<double>{1, -4, 0, 0}));
  EXPECT_EQ(second, (std::vector<double>{4, 2, -0.25, 1}));
}

TEST(EqualiseChannels, RefusesWhatDoesNotFit) {
  std::vector<double> numbers(12, 1.0), bad = {HUGE_VAL, 1};
  EXPECT_FALSE(equalise_channels({numbers, 5, 1}, {}, {numbers, 5, 1}, false).ok());
  EXPECT_FALSE(equalise_channels({numbers, 3, 1}, {}, {numbers, 4, 1}, false).ok());
  EXPECT_FALSE(equalise_channels({numbers, 2, 1}, {}, {bad, 2, 1}, false).ok());
  EXPECT_FALSE(equalise_channels({numbers, 2, 1}, {bad, 1, 1}, {numbers, 2, 1}, false).ok());
}

RC_GTEST_PROP(BiasCorrections, MakeMeanOutputsEqual, ()) {
  const uint64_t seed = *rc::gen::inRange(0, 1000);
  const auto weights = normal_numbers(24, seed), inputs = normal_numbers(40 * 6, seed + 1);
  WeightSettings settings;
  settings.range = {-2, 1};
  const auto found = *quantise_weights(std::span<const double>(weights), settings);
  std::vector<double> quantised, means(6);
  for (const int32_t q : found.mantissas) quantised.push_back(found.scales[0] * q);
  for (size_t k = 0; k < inputs.size(); ++k) means[k % 6] += inputs[k] / 40;
  const auto corrections = *bias_corrections(weights, quantised, means);
  RC_ASSERT(corrections.size() == 4);
  for (size_t o = 0; o < 4; ++o) {
    double mean = 0, corrected = 0;
    for (size_t k = 0; k < inputs.size(); ++k) {
      mean += inputs[k] * weights[o * 6 + k % 6] / 40;
      corrected += inputs[k] * quantised[o * 6 + k % 6] / 40;
    }
    RC_ASSERT(std::abs(corrected + corrections[o] - mean) <= 1e-12 * (1 + std::abs(mean)));
  }
}

TEST(BiasCorrections, RefuseWhatDoesNotFit) {
  const std::vector<double> six(6), four(4);
  EXPECT_FALSE(bias_corrections(six, four, four).ok());
  EXPECT_FALSE(bias_corrections(six, six, four).ok());
  EXPECT_FALSE(bias_corrections(six, six, {}).ok());
}

}  // namespace
}  // namespace mantissa::quantise
