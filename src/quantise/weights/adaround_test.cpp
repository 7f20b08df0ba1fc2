// Rounding by training: never worse than nearest rounding; clearly better if inputs depend on each
// other; and near the optimum if all roundings can be tried.
#include "quantise/weights/adaround.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "quantise/test_numbers.h"
#include "quantise/weights/weights.h"

namespace mantissa::quantise {
namespace {

struct Layer {
  std::vector<float> inputs;
  std::vector<double> weights, scales;
  int64_t outputs = 0;
  MantissaRange range;
  RoundingLayer view() const { return {inputs, {}, weights, outputs, scales, range}; }
  size_t features() const { return weights.size() / static_cast<size_t>(outputs); }
};

// Inputs as after a ReLU, each the sum of a few of few causes.
Layer layer_of(size_t rows, size_t features, size_t outputs, int bits, uint64_t seed) {
  Layer layer;
  layer.outputs = static_cast<int64_t>(outputs);
  layer.range = *mantissa_range(bits, RangeConvention::kFull);
  layer.weights = normal_numbers(features * outputs, seed);
  const auto causes = normal_numbers(rows * 4, seed + 1), shares = normal_numbers(features * 4, 7);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t f = 0; f < features; ++f) {
      double sum = 0.3 * uniform_number(seed, r * features + f);
      for (size_t c = 0; c < 4; ++c) sum += causes[r * 4 + c] * shares[f * 4 + c];
      layer.inputs.push_back(static_cast<float>(std::max(sum, 0.0)));
    }
  }
  WeightSettings settings;
  settings.range = layer.range;
  settings.parts = layer.outputs;
  layer.scales = quantise_weights(std::span<const double>(layer.weights), settings)->scales;
  return layer;
}

double output_error(const Layer& layer, const std::vector<int32_t>& mantissas) {
  double error = 0;
  const size_t features = layer.features(), rows = layer.inputs.size() / features;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t o = 0; o < static_cast<size_t>(layer.outputs); ++o) {
      double difference = 0;
      for (size_t f = 0; f < features; ++f) {
        const size_t k = o * features + f;
        difference +=
            layer.inputs[r * features + f] * (layer.scales[o] * mantissas[k] - layer.weights[k]);
      }
      error += difference * difference;
    }
  }
  return error;
}

TEST(AdaRound, LowersTheErrorOfTheOutputs) {
  for (const int bits : {2, 3, 4}) {
    const Layer layer = layer_of(300, 40, 6, bits, 11);
    const auto rounded = round_by_training(layer.view(), {});
    ASSERT_TRUE(rounded.ok());
    EXPECT_NEAR(rounded->error, output_error(layer, rounded->mantissas), 1e-9 * rounded->error);
    const auto nearest = nearest_mantissas(layer.weights, layer.scales, layer.range);
    EXPECT_NEAR(rounded->nearest_error, output_error(layer, *nearest),
                1e-9 * rounded->nearest_error);
    EXPECT_LT(rounded->error, 0.3 * rounded->nearest_error) << bits;
    for (size_t k = 0; k < layer.weights.size(); ++k) {
      const double ratio =
          std::clamp(layer.weights[k] / layer.scales[k / layer.features()],
                     static_cast<double>(layer.range.lo), static_cast<double>(layer.range.hi));
      EXPECT_LE(std::abs(rounded->mantissas[k] - ratio), 1);
    }
  }
}

TEST(AdaRound, OfOtherInputsLowersTheErrorToo) {
  const Layer layer = layer_of(600, 40, 6, 3, 21);
  Layer first = layer, second = layer;
  first.inputs.resize(layer.inputs.size() / 2);
  second.inputs.erase(second.inputs.begin(),
                      second.inputs.begin() + static_cast<std::ptrdiff_t>(first.inputs.size()));
  const auto rounded = round_by_training(first.view(), {});
  const auto nearest = nearest_mantissas(layer.weights, layer.scales, layer.range);
  EXPECT_LT(output_error(second, rounded->mantissas), 0.5 * output_error(second, *nearest));
}

TEST(AdaRound, IsNearTheBestOfAllRoundings) {
  double found = 0, best = 0, nearest = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Layer layer = layer_of(60, 10, 1, 3, seed);
    double least = HUGE_VAL;
    for (int choice = 0; choice < 1 << 10; ++choice) {
      std::vector<int32_t> mantissas;
      for (size_t k = 0; k < 10; ++k) {
        const double below = std::floor(layer.weights[k] / layer.scales[0]) + (choice >> k & 1);
        mantissas.push_back(static_cast<int32_t>(nearest_mantissa(below, layer.range)));
      }
      least = std::min(least, output_error(layer, mantissas));
    }
    const auto rounded = round_by_training(layer.view(), {});
    EXPECT_LE(least, rounded->error * (1 + 1e-9));
    found += rounded->error;
    nearest += rounded->nearest_error;
    best += least;
  }
  EXPECT_LT(found - best, 0.4 * (nearest - best));
}

RC_GTEST_PROP(AdaRound, IsNeverWorseThanNearestRounding, ()) {
  const int bits = *rc::gen::element(1, 2, 4, 8);
  Layer layer = layer_of(*rc::gen::inRange<size_t>(1, 20), *rc::gen::inRange<size_t>(1, 8),
                         *rc::gen::inRange<size_t>(1, 4), bits, *rc::gen::inRange(0, 1000));
  if (bits == 1) layer.range = {-1, 1, 2};
  RoundingSettings settings;
  settings.steps = *rc::gen::inRange(1, 60);
  const auto rounded = round_by_training(layer.view(), settings);
  RC_ASSERT(rounded->error <= rounded->nearest_error);
  RC_ASSERT(round_by_training(layer.view(), settings)->mantissas == rounded->mantissas);
  // Times powers of two: the same mantissas.
  for (double& w : layer.weights) w *= 4;
  for (double& s : layer.scales) s *= 4;
  for (float& x : layer.inputs) x *= 0.125F;
  RC_ASSERT(round_by_training(layer.view(), settings)->mantissas == rounded->mantissas);
}

TEST(AdaRound, TakesOtherTargets) {
  Layer layer = layer_of(100, 8, 2, 3, 5);
  std::vector<float> targets;  // the outputs of the mantissas below
  std::vector<int32_t> wanted;
  for (size_t k = 0; k < layer.weights.size(); ++k) {
    wanted.push_back(static_cast<int32_t>(
        nearest_mantissa(std::floor(layer.weights[k] / layer.scales[k / 8]), layer.range)));
  }
  for (size_t r = 0; r < 100; ++r) {
    for (size_t o = 0; o < 2; ++o) {
      double sum = 0;
      for (size_t f = 0; f < 8; ++f) {
        sum += layer.inputs[r * 8 + f] * layer.scales[o] * wanted[o * 8 + f];
      }
      targets.push_back(static_cast<float>(sum));
    }
  }
  RoundingLayer view = layer.view();
  view.targets = targets;
  const auto rounded = round_by_training(view, {});
  EXPECT_LT(rounded->error, 1e-3 * rounded->nearest_error);
  EXPECT_EQ(rounded->mantissas, wanted);
}

TEST(AdaRound, RefusesWhatDoesNotFit) {
  const Layer layer = layer_of(10, 4, 2, 3, 1);
  const auto refused = [&](auto change, RoundingSettings settings = {}) {
    RoundingLayer view = layer.view();
    change(view);
    return !round_by_training(view, settings).ok();
  };
  EXPECT_TRUE(refused([](RoundingLayer& l) { l.outputs = 3; }));
  EXPECT_TRUE(refused([](RoundingLayer& l) { l.inputs = l.inputs.first(7); }));
  EXPECT_TRUE(refused([](RoundingLayer& l) { l.inputs = {}; }));
  EXPECT_TRUE(refused([](RoundingLayer& l) { l.targets = l.inputs.first(3); }));
  EXPECT_TRUE(refused([](RoundingLayer& l) { l.scales = {}; }));
  const std::vector<double> zeros(2);
  EXPECT_TRUE(refused([&](RoundingLayer& l) { l.scales = zeros; }));
  const auto nothing = [](RoundingLayer&) {};
  EXPECT_TRUE(refused(nothing, {.steps = 0}));
  EXPECT_TRUE(refused(nothing, {.batch = 0}));
  EXPECT_TRUE(refused(nothing, {.rate = std::nan("")}));
}

}  // namespace
}  // namespace mantissa::quantise
