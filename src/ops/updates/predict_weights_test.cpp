// Predicted weights: against the definition in long double; against the update that they foresee;
// and cases that change nothing.
#include "ops/updates/predict_weights.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "numerics/lazy_update.h"
#include "ops/ops.h"
#include "ops/updates/update_subject.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kPredicted = 5000;  // parts of several threads, none of them even

// A parameter in training: weights in blocks of different exponents, with their waiting parts.
struct Prediction {
  explicit Prediction(uint64_t seed, int64_t count = kPredicted, int64_t blocks = 1)
      : mantissa(count), accumulator(count), velocity(count), exponents(blocks) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t bits = random_bits(seed, RandomStream::kRound, 0, static_cast<uint64_t>(i));
      mantissa[i] = static_cast<int8_t>(static_cast<int64_t>(bits % 255) - 127);
      accumulator[i] = static_cast<int16_t>(static_cast<int64_t>(bits >> 8 & 0x7fff) - 16384);
      velocity[i] = static_cast<int16_t>(static_cast<int64_t>(bits >> 24 & 0xffff) - 32768);
      velocity[i] = std::max<int16_t>(velocity[i], -32767);
    }
    for (int64_t block = 0; block < blocks; ++block) {
      exponents[block] = static_cast<int16_t>(-9 - block % 3);
    }
  }
  ParameterView view() {
    const Shape shape{static_cast<int64_t>(mantissa.size())};
    ParameterView view;
    view.mantissa = tensor_of(mantissa, shape, exponents.data(), &saturated);
    view.mantissa.blocks = static_cast<int64_t>(exponents.size());
    view.accumulator = tensor_of(accumulator, shape, nullptr, nullptr);
    view.moments[0] = tensor_of(velocity, shape, &velocity_exponent, nullptr);
    view.lazy_shift = kShift;
    return view;
  }
  std::vector<int8_t> predicted(const StepScalars& scalars, int missed, int threads = 2) {
    std::vector<int8_t> to(mantissa.size());
    with_context(view(), scalars, threads, [&](const OpContext& c) {
      kPredictByVelocity.integers(c, missed, reinterpret_cast<std::byte*>(to.data()));
    });
    return to;
  }
  long double value(size_t i) const {
    return std::ldexp(static_cast<long double>(lazy_value(mantissa[i], accumulator[i], kShift)),
                      exponent(i) - kShift);
  }
  int exponent(size_t i) const { return exponents[i / (mantissa.size() / exponents.size())]; }

  std::vector<int8_t> mantissa;
  std::vector<int16_t> accumulator, velocity, exponents;
  int16_t velocity_exponent = -20;
  int64_t saturated = 0;
};

// The point of the grid nearest to W - rate * missed * v, in blocks of different exponents.
TEST(PredictWeights, IsTheNearestWeightToTheDefinition) {
  for (const int64_t blocks : {1, 50}) {
    for (const int missed : {1, 2, 7}) {
      Prediction subject(static_cast<uint64_t>(missed), kPredicted, blocks);
      const StepScalars scalars{.learning_rate = 0.1};
      const std::vector<int8_t> predicted = subject.predicted(scalars, missed);
      int64_t moved = 0, clipped = 0;
      for (size_t i = 0; i < predicted.size(); ++i) {
        const long double wanted =
            subject.value(i) - 0.1L * missed *
                                   std::ldexp(static_cast<long double>(subject.velocity[i]),
                                              subject.velocity_exponent);
        const long double units = std::ldexp(wanted, -subject.exponent(i));
        moved += predicted[i] != subject.mantissa[i];
        if (std::abs(units) > 127) {
          ++clipped;
          EXPECT_EQ(predicted[i], units > 0 ? 127 : -127);
        } else {
          EXPECT_NEAR(predicted[i], static_cast<double>(units), 0.5001) << i;
        }
      }
      EXPECT_GT(moved, kPredicted / 50);
      EXPECT_GT(clipped, 0);
    }
  }
}

TEST(PredictWeights, DoesNotDependOnThreadsAndChangesNothingElse) {
  Prediction subject(3, kPredicted, 20);
  const Prediction before = subject;
  const StepScalars scalars{.learning_rate = 0.5};
  EXPECT_EQ(subject.predicted(scalars, 3, 1), subject.predicted(scalars, 3, 5));
  EXPECT_EQ(subject.mantissa, before.mantissa);
  EXPECT_EQ(subject.accumulator, before.accumulator);
  EXPECT_EQ(subject.velocity, before.velocity);
  EXPECT_EQ(subject.exponents, before.exponents);
}

// If nothing moves, or nothing is missed, weights stay as they are.
RC_GTEST_PROP(PredictWeights, NothingMissedIsTheIdentity,
              (int8_t drawn, int16_t waiting, int64_t velocity)) {
  const int64_t weight = std::max<int64_t>(drawn, -127);
  const int64_t accumulator = waiting / 2;  // (-half, half)
  RC_ASSERT(predicted_weight(weight, accumulator, 0, kShift, 8) == weight);
  RC_ASSERT(predicted_weight(weight, 0, 0 * (velocity >> 4), 0, 8) == weight);
}

// V - n u without clipping: n updates at once are n updates one after the other.
RC_GTEST_PROP(PredictWeights, IsLinearInUpdates, (int8_t weight, int16_t waiting)) {
  const int64_t update = *rc::gen::inRange<int64_t>(-400000, 400000);
  const int missed = *rc::gen::inRange(1, 9);
  const LazySplit start = {weight / 2, waiting / 2};
  LazySplit split = start;
  for (int i = 0; i < missed; ++i) {
    split = lazy_step(split.weight, split.accumulator, update, kShift);
  }
  // With 16 bits nothing is clipped.
  RC_ASSERT(predicted_weight(start.weight, start.accumulator, missed * update, kShift, 16) ==
            split.weight);
  RC_ASSERT(predicted_weight(start.weight, start.accumulator, missed * update, kShift, 8) ==
            saturate(split.weight, 127));
}

// With a gradient of zero and momentum 1, the next update is the predicted one.
TEST(PredictWeights, ForeseesTheUpdate) {
  Prediction subject(5);
  for (int8_t& weight : subject.mantissa) weight /= 2;
  subject.mantissa[0] = 100;  // keeps the unit
  subject.velocity[0] = 0;
  StepScalars scalars{.learning_rate = 0.01, .momentum = 1};
  const std::vector<int8_t> predicted = subject.predicted(scalars, 1);
  std::vector<int64_t> sums(kPredicted);
  ParameterView view = subject.view();
  view.gradient = tensor_of(sums, Shape{kPredicted}, nullptr, nullptr);
  const std::vector<int8_t> before = subject.mantissa;
  run_update(kUpdateMomentum, view, -20, scalars, 2);
  EXPECT_EQ(subject.exponents[0], -9);
  EXPECT_EQ(subject.mantissa, predicted);
  EXPECT_NE(subject.mantissa, before);
}

// Adam's step from known moments, by the definition. Before the first update there is none.
TEST(PredictWeights, FollowsAdamsStep) {
  Prediction subject(9);
  std::vector<int16_t> root(kPredicted);
  for (size_t i = 0; i < root.size(); ++i) root[i] = static_cast<int16_t>(100 + 7 * i % 30000);
  int16_t root_exponent = -21;
  ParameterView view = subject.view();
  view.moments[1] = tensor_of(root, Shape{kPredicted}, &root_exponent, nullptr);
  const auto predict = [&](int64_t step) {
    std::vector<int8_t> to(kPredicted);
    const StepScalars scalars{.learning_rate = 0.02, .step = step};
    with_context(view, scalars, 3, [&](const OpContext& c) {
      kPredictByAdam.integers(c, 2, reinterpret_cast<std::byte*>(to.data()));
    });
    return to;
  };
  const std::vector<int8_t> predicted = predict(12);  // ten updates were made
  for (size_t i = 0; i < predicted.size(); ++i) {
    const long double m = std::ldexp(static_cast<long double>(subject.velocity[i]), -20),
                      s = std::ldexp(static_cast<long double>(root[i]), -21);
    const long double first = m / (1 - std::pow(0.9L, 10)),
                      second = s / std::sqrt(1 - std::pow(0.999L, 10));
    const long double units = std::ldexp(
        subject.value(i) - 0.04L * std::clamp(first / (second + 1e-8L), -128.0L, 128.0L), 9);
    EXPECT_NEAR(predicted[i], static_cast<double>(std::clamp(units, -127.0L, 127.0L)), 0.51) << i;
  }
  EXPECT_EQ(predict(2), subject.mantissa);
}

TEST(PredictWeights, Fp32IsTheDefinition) {
  std::vector<float> weights = {1, -2, 3}, velocity = {0.5, 0.25, -8}, to(3);
  ParameterView view;
  view.mantissa = tensor_of(weights, Shape{3}, nullptr, nullptr);
  view.moments[0] = tensor_of(velocity, Shape{3}, nullptr, nullptr);
  with_context(view, {.learning_rate = 0.5}, 1, [&](const OpContext& c) {
    kPredictByVelocity.fp32(c, 2, reinterpret_cast<std::byte*>(to.data()));
  });
  EXPECT_EQ(to, (std::vector<float>{0.5, -2.25, 11}));
}

}  // namespace
}  // namespace mantissa::ops
