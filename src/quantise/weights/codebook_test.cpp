// k-means: never worse than the linear grid, and exact if there are as many values as numbers.
#include "quantise/weights/codebook.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "quantise/test_numbers.h"
#include "quantise/weights/weights.h"

namespace mantissa::quantise {
namespace {

CodebookWeights clustered(const std::vector<double>& weights, int bits, int64_t parts = 1) {
  auto result = cluster_weights(std::span<const double>(weights), bits, parts);
  EXPECT_TRUE(result.ok());
  return *result;
}

double error_of(const std::vector<double>& weights, const CodebookWeights& result) {
  double error = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double difference = weights[i] - result.values[result.indices[i]];
    error += difference * difference;
  }
  return error;
}

RC_GTEST_PROP(Codebook, IsNeverWorseThanTheLinearGrid, ()) {
  const int bits = *rc::gen::inRange(1, 9);
  const auto weights = drawn_weights(*rc::gen::inRange<size_t>(1, 400));
  WeightSettings settings;
  settings.range = *mantissa_range(bits, RangeConvention::kFull);
  const auto grid = quantise_weights(std::span<const double>(weights), settings);
  const double error = squared_error(weights, grid->scales[0], grid->mantissas);
  RC_ASSERT(error_of(weights, clustered(weights, bits)) <= error * (1 + 1e-12));
}

// Each weight has the value nearest to it, and each value is the best one for its weights.
RC_GTEST_PROP(Codebook, ValuesAreMeansOfTheirNearestWeights, ()) {
  const int bits = *rc::gen::inRange(1, 5);
  const auto weights = normal_numbers(500, *rc::gen::inRange(0, 1000));
  const auto result = clustered(weights, bits);
  std::vector<double> sums(result.values.size()), counts(result.values.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const double own = std::abs(weights[i] - result.values[result.indices[i]]);
    for (const double value : result.values) RC_ASSERT(own <= std::abs(weights[i] - value) + 1e-12);
    sums[result.indices[i]] += weights[i];
    ++counts[result.indices[i]];
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (counts[i] == 0) continue;  // a value that no weight is nearest to
    RC_ASSERT(std::abs(sums[i] / counts[i] - result.values[i]) < 1e-9);
  }
}

TEST(Codebook, IsTheOptimumOfFourClusters) {
  std::vector<double> weights;
  for (int i = 0; i < 300; ++i) weights.push_back((i % 4) * 10 + uniform_number(3, i) * 0.1);
  double error = 0;  // around the means of the four
  for (int cluster = 0; cluster < 4; ++cluster) {
    double sum = 0, squares = 0;
    for (size_t i = static_cast<size_t>(cluster); i < 300; i += 4) {
      sum += weights[i];
      squares += weights[i] * weights[i];
    }
    error += squares - sum * sum / 75;
  }
  EXPECT_NEAR(error_of(weights, clustered(weights, 2)), error, 1e-9);
}

TEST(Codebook, HoldsFewDifferentNumbersExactly) {
  std::vector<double> weights;
  for (int i = 0; i < 1000; ++i) weights.push_back((i * 7 % 13) * 0.37 - 1);
  EXPECT_NEAR(error_of(weights, clustered(weights, 4)), 0, 1e-24);
  EXPECT_EQ(error_of({2.5}, clustered({2.5}, 8)), 0);
  EXPECT_EQ(error_of({0, 0}, clustered({0, 0}, 1)), 0);
}

RC_GTEST_PROP(Codebook, TimesAPowerOfTwoIsTheSame, ()) {
  auto weights = drawn_weights(*rc::gen::inRange<size_t>(1, 100));
  const auto before = clustered(weights, 3);
  for (double& w : weights) w *= 1024;
  const auto after = clustered(weights, 3);
  RC_ASSERT(after.indices == before.indices);
  for (size_t i = 0; i < after.values.size(); ++i) {
    RC_ASSERT(after.values[i] == 1024 * before.values[i]);
  }
}

TEST(Codebook, OfPartsIsThatOfEachAlone) {
  const auto weights = normal_numbers(300, 5);
  const auto all = clustered(weights, 2, 3);
  ASSERT_EQ(all.values.size(), 12);
  for (int part = 0; part < 3; ++part) {
    const std::vector<double> alone(weights.begin() + 100 * part,
                                    weights.begin() + 100 * part + 100);
    const auto one = clustered(alone, 2);
    EXPECT_TRUE(std::equal(one.values.begin(), one.values.end(), all.values.begin() + 4 * part));
    EXPECT_TRUE(
        std::equal(one.indices.begin(), one.indices.end(), all.indices.begin() + 100 * part));
  }
}

TEST(Codebook, RefusesWhatCannotBeClustered) {
  const std::vector<double> weights = {1, 2, 3}, infinite = {1, HUGE_VAL};
  EXPECT_FALSE(cluster_weights(std::span<const double>(weights), 0, 1).ok());
  EXPECT_FALSE(cluster_weights(std::span<const double>(weights), 9, 1).ok());
  EXPECT_FALSE(cluster_weights(std::span<const double>(weights), 2, 2).ok());
  EXPECT_FALSE(cluster_weights(std::span<const double>(infinite), 2, 1).ok());
  EXPECT_TRUE(cluster_weights(std::span<const double>(), 2, 1).ok());
}

}  // namespace
}  // namespace mantissa::quantise
