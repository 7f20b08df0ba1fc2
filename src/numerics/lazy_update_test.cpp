// The lazy update: conservation, rescaling, and that only the corrected rule learns.
#include "numerics/lazy_update.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "base/random.h"

namespace mantissa {
namespace {

using Wide = __int128;

constexpr std::array<int, 5> kAccumulatorBits = {0, 2, 4, 8, 16};

constexpr int shift_of(int accumulator_bits) { return std::max(accumulator_bits - 1, 0); }

// A number of random size in [-2^bits, 2^bits].
int64_t random_number(uint64_t seed, uint64_t counter, int bits) {
  const uint64_t random = random_bits(seed, RandomStream::kRound, 0, counter);
  const int length = static_cast<int>(random % static_cast<uint64_t>(bits + 1));
  const int64_t number = static_cast<int64_t>(random) >> (63 - length);
  return number;
}

TEST(LazyUpdate, ConservesTheValueOverLongSequences) {
  for (const int bits : kAccumulatorBits) {
    const int shift = shift_of(bits);
    const int64_t half = shift == 0 ? 0 : int64_t{1} << (shift - 1);
    LazySplit state = {17, 0};
    Wide value = Wide{17} << shift;
    int64_t overflows = 0;
    for (uint64_t i = 0; i < 20000; ++i) {
      const int64_t update = random_number(static_cast<uint64_t>(bits), i, 40);
      overflows += magnitude(state.accumulator + update) > 32767;
      state = lazy_step(state.weight, state.accumulator, update, shift);
      value -= update;
      ASSERT_TRUE(lazy_value(state.weight, state.accumulator, shift) == value);
      ASSERT_LE(magnitude(state.accumulator), static_cast<uint64_t>(half));
      ASSERT_EQ(lazy_split_step(lazy_value(state.weight, state.accumulator, shift), shift), state);
    }
    EXPECT_GT(overflows, 100) << "t must have left 16 bits for this test to mean anything";
  }
}

RC_GTEST_PROP(LazyUpdate, SplitIsTheStep, (int8_t weight, int64_t bits)) {
  for (const int accumulator_bits : kAccumulatorBits) {
    const int shift = shift_of(accumulator_bits);
    const int64_t half = shift == 0 ? 0 : int64_t{1} << (shift - 1);
    const int64_t accumulator = std::clamp<int64_t>(bits >> 40, -half, half);
    const int64_t update = bits >> *rc::gen::inRange(3, 64);
    const LazySplit step = lazy_step(weight, accumulator, update, shift);
    const int64_t value = lazy_value(weight, accumulator, shift) - update;
    RC_ASSERT(lazy_value(step.weight, step.accumulator, shift) == value);
    RC_ASSERT(lazy_split_step(value, shift) == step);
  }
}

TEST(LazyUpdate, TiesKeepTheAccumulatorInRange) {
  for (const int64_t tie : {-3, -1, 1, 3}) {
    const int64_t value = tie * (1 << 14);
    EXPECT_EQ(lazy_split_step(value, 15).accumulator, -(1 << 14));
    EXPECT_EQ(lazy_split_rescaled(value, 15).accumulator, 1 << 14);
  }
}

// The loss by rescaling W and A jointly: one unit of V for all doublings together, nothing for
// halvings.
RC_GTEST_PROP(LazyUpdate, RescalesJointly, (int64_t bits)) {
  const int shift = shift_of(*rc::gen::elementOf(kAccumulatorBits));
  const int growth = *rc::gen::inRange(-6, 12);
  const int64_t value = bits >> *rc::gen::inRange(8, 64);
  const LazySplit split = lazy_rescale_and_split(value, growth, shift);
  const Wide after = lazy_value(split.weight, split.accumulator, shift);
  const int64_t half = shift == 0 ? 0 : int64_t{1} << (shift - 1);
  RC_ASSERT(magnitude(split.accumulator) <= static_cast<uint64_t>(half));
  if (growth <= 0) {
    RC_ASSERT(after == value * (Wide{1} << -growth));
  } else {
    const Wide error = after * (Wide{1} << growth) - value;
    RC_ASSERT(error >= 0);
    RC_ASSERT(error < (Wide{1} << growth));
    if (growth == 1) RC_ASSERT(after == (Wide{value} + 1) >> 1);
  }
}

// The definition, one tensor at a time: does everything fit after `growth`?
bool fits(const std::vector<int64_t>& values, int growth, int weight_bits, int shift) {
  return std::all_of(values.begin(), values.end(), [&](int64_t value) {
    const LazySplit split = lazy_rescale_and_split(value, growth, shift);
    return magnitude(split.weight) <= static_cast<uint64_t>(mantissa_limit(weight_bits));
  });
}

// The first tie above the mantissa's limit.
int64_t limit_value(int weight_bits, int shift) {
  return mantissa_limit(weight_bits) * (int64_t{1} << shift) + (int64_t{1} << shift) / 2;
}

void check_growth(const std::vector<int64_t>& values, int weight_bits, int shift) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const int growth = lazy_growth(*low, *high, weight_bits, shift, 20);
  ASSERT_TRUE(fits(values, growth, weight_bits, shift));
  if (growth > 0) {
    ASSERT_FALSE(fits(values, growth - 1, weight_bits, shift)) << "grew too far";
  }
  // After that the tensor needs no more growth, unless 20 halvings were not enough. (A negative tie
  // at the limit needs one more doubling: rescaling splits it upwards, and a step downwards.)
  std::vector<int64_t> rescaled;
  for (const int64_t value : values) {
    const LazySplit split = lazy_rescale_and_split(value, growth, shift);
    rescaled.push_back(lazy_value(split.weight, split.accumulator, shift));
  }
  const auto [low2, high2] = std::minmax_element(rescaled.begin(), rescaled.end());
  const int again = lazy_growth(*low2, *high2, weight_bits, shift, 20);
  if (growth > 0) {
    ASSERT_GE(again, 0) << "ping-pong after " << growth;
    ASSERT_LE(again, *low2 == -limit_value(weight_bits, shift) ? 1 : 0);
  } else if (growth > -20) {
    ASSERT_EQ(again, 0) << "ping-pong after " << growth;
  }
}

TEST(LazyUpdate, GrowsUntilItFitsAndDoesNotPingPong) {
  for (const int weight_bits : {8, 16}) {
    for (const int bits : kAccumulatorBits) {
      const int shift = shift_of(bits);
      for (uint64_t seed = 0; seed < 2000; ++seed) {
        std::vector<int64_t> values;
        for (uint64_t i = 0; i < 3; ++i) values.push_back(random_number(seed, i, 45));
        check_growth(values, weight_bits, shift);
      }
      // The borders: the limit itself, the first tie above it, and where shrinking begins.
      const int64_t limit = mantissa_limit(weight_bits);
      for (const int64_t weight : {limit, (limit + 1) / 2 - 2, (limit + 1) / 4}) {
        const int64_t value = lazy_value(weight, 0, shift);
        const int64_t half = (int64_t{1} << shift) / 2;
        for (const int64_t near : {value - 1, value, value + 1, value + half, value + half + 1}) {
          check_growth({near}, weight_bits, shift);
          check_growth({-near}, weight_bits, shift);
        }
      }
    }
  }
}

TEST(LazyUpdate, GrowthAtTheBorders) {
  EXPECT_EQ(lazy_growth(0, 127 << 15, 8, 15, 8), 0);
  EXPECT_EQ(lazy_growth(0, (127 << 15) + (1 << 14), 8, 15, 8), 0) << "the tie goes to the smaller";
  EXPECT_EQ(lazy_growth(0, (127 << 15) + (1 << 14) + 1, 8, 15, 8), 1);
  EXPECT_EQ(lazy_growth(-(127 << 15) - (1 << 14), 0, 8, 15, 8), 1) << "the tie goes to -128";
  EXPECT_EQ(lazy_growth(-(62 << 15), 0, 8, 15, 8), 0);
  EXPECT_EQ(lazy_growth(1 - (62 << 15), 0, 8, 15, 8), -1);
  EXPECT_EQ(lazy_growth(0, 0, 8, 15, 8), 0) << "an all-zero tensor keeps its exponent";
  EXPECT_EQ(lazy_growth(0, 1, 8, 15, 3), -3);
  EXPECT_EQ(lazy_growth(-kWideLimit, kWideLimit, 8, 15, 8), 40);
}

// A linear regression in integers. Inputs x are 8-bit, and the wanted weights are fractions of a
// weight unit (2^-15). The update is the mean of error * x times a small learning rate: far below
// one unit of W for most of the training.
struct Regression {
  static constexpr int kFeatures = 8;
  static constexpr int kExamples = 256;
  static constexpr int kBatch = 16;
  static constexpr int kShift = 15;
  std::array<std::array<int64_t, kFeatures>, kExamples> x;
  std::array<int64_t, kFeatures> wanted;  // in 2^-15 of a weight unit, up to 100 weight units

  Regression() {
    const auto draw = [](uint32_t a, uint64_t b, int64_t limit) {
      const uint64_t bits = random_bits(7, RandomStream::kInitialise, a, b);
      return static_cast<int64_t>(uniform_below(bits, static_cast<uint64_t>(2 * limit + 1))) -
             limit;
    };
    for (int n = 0; n < kExamples; ++n) {
      for (int j = 0; j < kFeatures; ++j) x[n][j] = draw(1, uint64_t(n * kFeatures + j), 127);
    }
    for (int j = 0; j < kFeatures; ++j) wanted[j] = draw(2, uint64_t(j), int64_t{100} << kShift);
  }

  // The update of each weight on batch `step`, in 2^-15 of a weight unit: the mean over the batch
  // of error * x, times a learning rate of about 0.0003 (in units of the inputs' variance).
  std::array<int64_t, kFeatures> updates(const std::array<int64_t, kFeatures>& weights,
                                         int step) const {
    std::array<int64_t, kFeatures> sums = {};
    for (int i = 0; i < kBatch; ++i) {
      const auto& input = x[(step * kBatch + i) % kExamples];
      int64_t error = 0;
      for (int j = 0; j < kFeatures; ++j) {
        error += (weights[j] * (int64_t{1} << kShift) - wanted[j]) * input[j];
      }
      for (int j = 0; j < kFeatures; ++j) sums[j] += error * input[j];
    }
    for (int64_t& sum : sums) sum = shift_right_rhu(sum, 4 + 24);
    return sums;
  }

  // Root of the mean square of W - wanted, in weight units.
  double distance(const std::array<int64_t, kFeatures>& weights) const {
    double sum = 0;
    for (int j = 0; j < kFeatures; ++j) {
      const double difference = static_cast<double>(weights[j]) - std::ldexp(wanted[j], -kShift);
      sum += difference * difference;
    }
    return std::sqrt(sum / kFeatures);
  }
};

// Updates one (W, A) by u, which is in 2^-15 of a weight unit.
using Rule = std::function<LazySplit(LazySplit, int64_t)>;

LazySplit saturated(LazySplit state) {
  return {saturate(state.weight, 127), saturate(state.accumulator, 32767)};
}

// The mean distance to the wanted weights over the last 2000 of 24000 steps, as a share of the
// distance at the start.
double remaining_distance(const Rule& rule) {
  const Regression problem;
  std::array<LazySplit, Regression::kFeatures> states = {};
  std::array<int64_t, Regression::kFeatures> weights = {};
  const double start = problem.distance(weights);
  double late = 0;
  for (int step = 0; step < 24000; ++step) {
    const auto updates = problem.updates(weights, step);
    for (int j = 0; j < Regression::kFeatures; ++j) {
      states[j] = saturated(rule(states[j], updates[j]));
      weights[j] = states[j].weight;
    }
    if (step >= 22000) late += problem.distance(weights) / 2000;
  }
  return late / start;
}

// The corrected rule with an accumulator of `bits`.
Rule corrected(int bits) {
  return [shift = shift_of(bits)](LazySplit state, int64_t update) {
    const int64_t rounded = shift_right_rhu(update, Regression::kShift - shift);
    return lazy_step(state.weight, state.accumulator, rounded, shift);
  };
}

// BlockFloat [0144]-[0147] as printed. The sign before w_ch in [0144] is lost: `sign`. [0146] adds
// and subtracts weights and accumulators: as the mantissas they are, or, `aligned`, as values.
Rule printed(int sign, bool aligned) {
  return [=](LazySplit state, int64_t update) {
    constexpr int kShift = Regression::kShift;
    const int64_t unit = aligned ? int64_t{1} << kShift : 1;
    const int64_t sum = state.accumulator + sign * update;                  // [0144]
    const int64_t weight = state.weight - shift_right_rhu(sum, kShift);     // [0145]
    const int64_t accumulator = state.weight * unit + sum - weight * unit;  // [0146]
    return LazySplit{weight, accumulator};                                  // [0147]
  };
}

TEST(LazyLearning, TheCorrectedRuleConverges) {
  EXPECT_LT(remaining_distance(corrected(16)), 0.02);
  EXPECT_LT(remaining_distance(corrected(8)), 0.15);
}

// A is saturated to 16 bits, not wrapped: modulo 2^16 adding k << 15 is subtracting it, and the
// aligned reading would be the corrected rule by accident.
TEST(LazyLearning, ThePrintedRuleDoesNotLearn) {
  EXPECT_GT(remaining_distance(printed(+1, true)), 0.9);
  EXPECT_GT(remaining_distance(printed(-1, false)), 0.9);
  EXPECT_GT(remaining_distance(printed(-1, true)), 0.9);
  // With a plus and unaligned mantissas the accumulator is never emptied: a velocity without
  // friction, so the weights swing around the solution and do not settle.
  EXPECT_GT(remaining_distance(printed(+1, false)), 0.2);
}

TEST(LazyLearning, WithoutAccumulatorSmallUpdatesAreLost) {
  const double with = remaining_distance(corrected(16));
  const double without = remaining_distance(corrected(0));
  EXPECT_GT(without, 0.5);
  EXPECT_GT(without, 20 * with);
}

}  // namespace
}  // namespace mantissa
