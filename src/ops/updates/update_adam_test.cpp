// Adam's update as an instruction, against Adam in long double.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "numerics/exponent.h"
#include "numerics/lazy_update.h"
#include "ops/ops.h"
#include "ops/updates/update_subject.h"

namespace mantissa::ops {
namespace {

// A parameter with its moments, updated step by step.
class AdamTest : public ::testing::Test {
 protected:
  // `exponent`: of the gradient's accumulator.
  struct Weights {
    explicit Weights(int64_t count, int exponent)
        : mantissa(count), accumulator(count), first(count), root(count), sums(count) {
      gradient_exponent = static_cast<int16_t>(exponent);
      for (int64_t i = 0; i < count; ++i) mantissa[i] = static_cast<int8_t>(i % 200 - 100);
    }
    double value(size_t i) const {
      return std::ldexp(static_cast<double>(lazy_value(mantissa[i], accumulator[i], kShift)),
                        weight_exponent - kShift);
    }
    std::vector<int8_t> mantissa;
    std::vector<int16_t> accumulator, first, root;
    std::vector<int64_t> sums;
    int16_t weight_exponent = -9, first_exponent = kExponentMin, root_exponent = kExponentMin;
    int16_t gradient_exponent;
    int64_t saturated = 0;
  };

  // One step on the sums that w holds.
  void update(const Op& op, Weights& w) {
    const Shape shape{static_cast<int64_t>(w.sums.size())};
    const auto tensor = [&](auto& data, int16_t* exponent) {
      return tensor_of(data, shape, exponent, &w.saturated);
    };
    ParameterView view;
    view.mantissa = tensor(w.mantissa, &w.weight_exponent);
    view.accumulator = tensor(w.accumulator, nullptr);
    view.moments = {tensor(w.first, &w.first_exponent), tensor(w.root, &w.root_exponent)};
    view.gradient = tensor(w.sums, nullptr);
    run_update(op, view, w.gradient_exponent, scalars_, 2);
    ++scalars_.step;
  }

  // Element i's gradient in step t, between -2^30 and 2^30 times 2^-(i % 12), mostly of one sign.
  static int64_t gradient(int64_t i, int64_t t) {
    const uint64_t bits =
        random_bits(3, RandomStream::kRound, static_cast<uint32_t>(t), static_cast<uint64_t>(i));
    const int64_t noise = static_cast<int64_t>(bits >> 34) - (int64_t{1} << 29);
    return (noise + (i % 3 - 1) * (int64_t{1} << 28)) >> (i % 12);
  }

  StepScalars scalars_{.learning_rate = 1e-3};
};

void check_against_long_double(double decay_in_gradient, double decay_apart,
                               const std::vector<double>& got, const std::vector<double>& start,
                               int steps, int64_t (*gradient)(int64_t, int64_t)) {
  for (size_t i = 0; i < got.size(); ++i) {
    long double weight = start[i], m = 0, v = 0, way = 0;
    for (int t = 1; t <= steps; ++t) {
      const long double g =
          std::ldexp(static_cast<long double>(gradient(static_cast<int64_t>(i), t - 1)), -40) +
          decay_in_gradient * weight;
      m = 0.9L * m + 0.1L * g;
      v = 0.999L * v + 0.001L * g * g;
      const long double first = m / (1 - std::pow(0.9L, t));
      const long double second = v / (1 - std::pow(0.999L, t));
      const long double step = 1e-3L * (first / (std::sqrt(second) + 1e-8L) + decay_apart * weight);
      weight -= step;
      way += std::abs(step);
    }
    EXPECT_NEAR(got[i], static_cast<double>(weight),
                (0.01 + std::ldexp(1.6e-4, static_cast<int>(i % 12))) * static_cast<double>(way))
        << "element " << i;
  }
}

// Gradients of elements differ by up to 2^11. So some s have few bits, and these elements step
// somewhat too far or too short: by 1 % for the largest s, by a third if s is a few units.
TEST_F(AdamTest, FollowsAdamInLongDouble) {
  constexpr int kSteps = 400;
  for (const bool decoupled : {false, true}) {
    scalars_.weight_decay = decoupled ? 0.1 : 1e-5;
    scalars_.step = 0;
    Weights w(240, -40);
    std::vector<double> start, end;
    for (size_t i = 0; i < w.sums.size(); ++i) start.push_back(w.value(i));
    for (int t = 0; t < kSteps; ++t) {
      for (size_t i = 0; i < w.sums.size(); ++i) {
        w.sums[i] = gradient(static_cast<int64_t>(i), t);
      }
      update(decoupled ? kUpdateAdamW : kUpdateAdam, w);
      for (size_t i = 0; i < w.sums.size(); ++i) {
        ASSERT_GE(w.root[i], 1);
        ASSERT_NE(w.first[i], INT16_MIN);
      }
    }
    for (size_t i = 0; i < w.sums.size(); ++i) end.push_back(w.value(i));
    check_against_long_double(decoupled ? 0 : 1e-5, decoupled ? 0.1 : 0, end, start, kSteps,
                              gradient);
  }
}

// Once gradients are zero, s shrinks by half a thousandth of itself per step, even if that is a
// small part of a unit.
TEST_F(AdamTest, RootsDecayThoughEachStepIsLessThanAUnit) {
  Weights w(64, -40);
  for (int t = 0; t < 2000; ++t) {
    for (size_t i = 0; i < w.sums.size(); ++i) {
      // The first element keeps the unit where it is.
      const bool silent = i > 0 && t >= 1000;
      w.sums[i] = silent ? 0 : int64_t{1} << (i == 0 ? 30 : 22 + i % 8);
    }
    update(kUpdateAdam, w);
  }
  const double kept = std::sqrt(1 - std::pow(0.999, 1000));
  const double decayed = kept * std::pow(0.999, 500);
  for (size_t i = 1; i < w.sums.size(); ++i) {
    const double root = std::ldexp(w.root[i], w.root_exponent);
    const double wanted = decayed * std::ldexp(1.0, static_cast<int>(22 + i % 8) - 40);
    EXPECT_NEAR(root, wanted, 0.03 * wanted + std::ldexp(1.0, w.root_exponent)) << i;
  }
}

// Once gradients are zero m becomes zero, too, and weights come to rest. An m of a few units must
// not round to itself for ever: weights with an equally small s would walk on by whole steps.
TEST_F(AdamTest, WeightsWithoutAGradientComeToRest) {
  Weights w(240, -40);
  std::vector<int8_t> mantissa;
  std::vector<int16_t> accumulator;
  for (int t = 0; t < 600; ++t) {
    for (size_t i = 0; i < w.sums.size(); ++i) {
      // The first element keeps the unit where it is.
      const bool silent = i > 0 && t >= 200;
      w.sums[i] = silent   ? 0
                  : i == 0 ? int64_t{1} << 30
                           : gradient(static_cast<int64_t>(i), t) >> 4;
    }
    update(kUpdateAdam, w);
    if (t < 500) mantissa = w.mantissa, accumulator = w.accumulator;
  }
  for (size_t i = 1; i < w.sums.size(); ++i) {
    EXPECT_EQ(w.first[i], 0) << i;
    EXPECT_EQ(lazy_value(w.mantissa[i], w.accumulator[i], kShift),
              lazy_value(mantissa[i], accumulator[i], kShift))
        << i;
  }
}

TEST_F(AdamTest, WithoutAGradientNothingMoves) {
  Weights w(100, -40);
  const Weights before = w;
  for (int t = 0; t < 5; ++t) {
    w.sums.assign(w.sums.size(), 0);  // an update leaves something else there
    update(kUpdateAdam, w);
  }
  EXPECT_EQ(w.mantissa, before.mantissa);
  EXPECT_EQ(w.accumulator, before.accumulator);
  EXPECT_EQ(w.root, before.root);
  EXPECT_EQ(w.root_exponent, kExponentMin);
  scalars_.epsilon = 0;  // 0 / 0
  w.sums.assign(w.sums.size(), 0);
  update(kUpdateAdam, w);
  EXPECT_EQ(w.mantissa, before.mantissa);
}

// Without epsilon the size of the gradients does not matter. The same mantissas times 2^-90 to
// 2^100 give the same weights.
TEST_F(AdamTest, ExtremeExponents) {
  scalars_.epsilon = 0;
  std::vector<std::vector<int8_t>> results;
  for (const int exponent : {-120, -40, 0, 70}) {
    scalars_.step = 0;
    Weights w(240, exponent);
    for (int t = 0; t < 50; ++t) {
      for (size_t i = 0; i < w.sums.size(); ++i) {
        w.sums[i] = gradient(static_cast<int64_t>(i), t);
      }
      update(kUpdateAdam, w);
    }
    results.push_back(w.mantissa);
    for (const int16_t a : w.accumulator) results.back().push_back(static_cast<int8_t>(a & 127));
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  // A gradient that grows by 2^40 from one step to the next.
  scalars_.step = 0;
  Weights w(240, -60);
  for (int t = 0; t < 4; ++t) {
    w.gradient_exponent = static_cast<int16_t>(t < 2 ? -60 : -20);
    for (size_t i = 0; i < w.sums.size(); ++i) w.sums[i] = gradient(static_cast<int64_t>(i), t);
    update(kUpdateAdam, w);
  }
}

}  // namespace
}  // namespace mantissa::ops
