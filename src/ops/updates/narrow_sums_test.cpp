// Exact int32 sums update a parameter in the same way as int64 sums that were rounded from them.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/random.h"
#include "kernels/common/exact_sums.h"
#include "kernels/convolution/choice.h"
#include "numerics/exponent.h"
#include "ops/ops.h"
#include "ops/updates/update_parts.h"
#include "ops/updates/update_subject.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kCount = 2003;
constexpr int kFixedExponent = -40;

// A parameter, with sums of either kind.
struct Weights {
  std::vector<int8_t> mantissa = std::vector<int8_t>(kCount);
  std::vector<int16_t> accumulator = std::vector<int16_t>(kCount);
  std::vector<int16_t> moments[2] = {std::vector<int16_t>(kCount), std::vector<int16_t>(kCount)};
  std::vector<int32_t> exact = std::vector<int32_t>(kCount);
  std::vector<int64_t> rounded = std::vector<int64_t>(kCount);
  int16_t exponent = -9, moment_exponents[2] = {kExponentMin, kExponentMin};
  int16_t fixed_exponent = kFixedExponent;
  int64_t saturated = 0;

  Weights() {
    for (size_t i = 0; i < kCount; ++i) mantissa[i] = static_cast<int8_t>(i % 200 - 100);
  }

  // Sums of at most `bits` bits, whose exponent is `below` less than the fixed one of the first
  // step.
  void set_sums(uint32_t step, int bits, int below) {
    const int shift = fixed_exponent - kFixedExponent + below;
    for (size_t i = 0; i < kCount; ++i) {
      const auto random = static_cast<int64_t>(random_bits(6, RandomStream::kRound, step, i));
      exact[i] = static_cast<int32_t>(bits == 0 ? 0 : random >> (64 - bits));
      kernels::add_sum(exact[i], shift, false, {rounded.data()}, static_cast<int64_t>(i));
    }
  }

  ParameterView view() {
    const Shape shape{kCount};
    ParameterView view;
    view.mantissa = tensor_of(mantissa, shape, &exponent, &saturated);
    view.accumulator = tensor_of(accumulator, shape, nullptr, &saturated);
    for (int m = 0; m < 2; ++m) {
      view.moments[m] = tensor_of(moments[m], shape, &moment_exponents[m], &saturated);
    }
    return view;
  }
};

// Both parameters are alike after their updates.
void expect_equal(const Weights& a, const Weights& b, const std::string& what) {
  EXPECT_EQ(a.mantissa, b.mantissa) << what;
  EXPECT_EQ(a.accumulator, b.accumulator) << what;
  for (int m = 0; m < 2; ++m) {
    EXPECT_EQ(a.moments[m], b.moments[m]) << what;
    EXPECT_EQ(a.moment_exponents[m], b.moment_exponents[m]) << what;
  }
  EXPECT_EQ(a.exponent, b.exponent) << what;
  EXPECT_EQ(a.fixed_exponent, b.fixed_exponent) << what;
  EXPECT_EQ(a.saturated, b.saturated) << what;
}

TEST(NarrowSums, UpdateAsTheSumsThatTheyAreRoundedTo) {
  for (const Op* op :
       {&kUpdateSgd, &kUpdateMomentum, &kUpdateNesterov, &kUpdateAdam, &kUpdateAdamW}) {
    for (const int bits : {0, 1, 12, 31}) {
      for (const int below : {-30, -9, -1, 0, 1, 7, 29, 40, 80}) {
        Weights narrow, wide;
        for (uint32_t step = 0; step < 3; ++step) {
          const StepScalars scalars{.learning_rate = 0.1,
                                    .momentum = 0.9,
                                    .weight_decay = 0.01,
                                    .gradient_scale = 1.0 / 64,
                                    .step = step};
          narrow.set_sums(step, bits, below);
          wide.set_sums(step, bits, below);
          ParameterView view = narrow.view();
          auto own_exponent = static_cast<int16_t>(kFixedExponent - below);
          view.gradient = tensor_of(narrow.exact, Shape{kCount}, &own_exponent, nullptr);
          view.rounds_stochastically = step == 2;
          narrow.fixed_exponent = run_update(*op, view, narrow.fixed_exponent, scalars, 2);
          view = wide.view();
          view.rounds_stochastically = step == 2;
          view.gradient = tensor_of(wide.rounded, Shape{kCount}, nullptr, nullptr);
          wide.fixed_exponent = run_update(*op, view, wide.fixed_exponent, scalars, 2);
        }
        expect_equal(narrow, wide,
                     std::string(op->name) + ", " + std::to_string(bits) + " bits, shift " +
                         std::to_string(below));
        if (HasFailure()) return;
      }
    }
  }
}

// The norm of one parameter's gradient, by either kind of sums.
StepTotals norm_of(Weights& w, bool narrow, int below) {
  ParameterView view;
  auto own_exponent = static_cast<int16_t>(kFixedExponent - below);
  view.fixed_exponent = &w.fixed_exponent;
  view.gradient = narrow ? tensor_of(w.exact, Shape{kCount}, &own_exponent, nullptr)
                         : tensor_of(w.rounded, Shape{kCount}, &w.fixed_exponent, nullptr);
  return run_on(kGradientNorm, view, {.gradient_scale = 1.0 / 64, .clip_norm = 1}, 2);
}

// The norm over all parameters does not depend on how their sums are kept.
TEST(NarrowSums, HaveTheNormOfTheSumsThatTheyAreRoundedTo) {
  for (const int below : {-28, -20, -1, 0, 1, 12}) {
    Weights w;
    w.set_sums(0, 31, below);
    const StepTotals wide = norm_of(w, false, below), narrow = norm_of(w, true, below);
    EXPECT_GT(wide.gradient_norm, 0) << below;
    EXPECT_EQ(wide.gradient_norm, narrow.gradient_norm) << below;
    EXPECT_FALSE(wide.gradient_overflow || narrow.gradient_overflow) << below;
  }
}

// Sums beyond 2^60 fail the step before they are squared.
TEST(NarrowSums, ThatOutgrowTheFixedExponentAreNoted) {
  for (const int below : {-31, -40, -80}) {
    Weights w;
    w.set_sums(0, 31, below);
    EXPECT_TRUE(norm_of(w, true, below).gradient_overflow) << below;
    EXPECT_TRUE(norm_of(w, false, below).gradient_overflow) << below;
  }
}

// 1000 rows, whose worst gradients would not fit. Here they fit to the last unit; one more does
// not.
TEST(NarrowSums, AreWrittenWhereTheGradientsShowThatTheyFit) {
  constexpr int64_t kRows = 1000, kInputs = 3, kOutputs = 2;
  constexpr int64_t kMost = kernels::most_magnitudes_of_int32_sums(8);
  std::vector<int8_t> input(kRows * kInputs, 127), weights(kOutputs * kInputs);
  std::vector<int16_t> gradient(kRows * kOutputs, -static_cast<int16_t>(kMost / kRows));
  std::vector<std::byte> workspace(kernels::kMaximumParts * kOutputs * sizeof(int64_t));
  int16_t exponent = -7, gradient_exponent = -20, own_exponent = 0, fixed_exponent = -30;
  const Tensor inputs = tensor_of(input, Shape{kRows, kInputs}, &exponent, nullptr);
  Tensor grad_output = tensor_of(gradient, Shape{kRows, kOutputs}, &gradient_exponent, nullptr);
  grad_output.bits = 16;
  const Attributes attributes = *complete({{"channels", kOutputs}}, kLinear.attributes);
  const kernels::ConvolutionShape shape{
      .batch = kRows, .in_channels = kInputs, .out_channels = kOutputs};
  for (const bool fits : {true, false}) {
    gradient[0] = static_cast<int16_t>(-(kMost / kRows + kMost % kRows + (fits ? 0 : 1)));
    std::vector<int64_t> sums(kOutputs * kInputs, 77);
    uint8_t narrow = 77;
    ParameterView view;
    view.mantissa = tensor_of(weights, Shape{kOutputs, kInputs}, &exponent, nullptr);
    view.gradient = tensor_of(sums, Shape{kOutputs, kInputs}, &own_exponent, nullptr);
    view.fixed_exponent = &fixed_exponent;
    view.narrow_sums = &narrow;
    with_context(view, {}, 2, [&](OpContext& c) {
      std::vector<std::byte> scratch(
          kernels::convolution_scratch_bytes(
              c.kernel.table->convolution, {kernels::ConvolutionPass::kGradWeights, shape, 16}, 2) +
          64);
      void* aligned = scratch.data();
      size_t space = scratch.size();
      std::align(64, space - 64, aligned, space);
      c.kernel.scratch = {static_cast<std::byte*>(aligned), space};
      c.node.attributes = &attributes;
      c.inputs = {&inputs, 1};
      c.grad_outputs = {&grad_output, 1};
      c.memory.workspace = workspace.data();
      const Prepared prepared = kLinear.integer.grad_weights.prepare(c);
      c.kernel.prepared = prepared.get();
      kLinear.integer.grad_weights.run(c);
    });
    EXPECT_EQ(narrow, fits ? 1 : 0);
    EXPECT_EQ(own_exponent, fits ? exponent + gradient_exponent : fixed_exponent);
    const int64_t expected = -127 * (kMost + (fits ? 0 : 1));
    if (fits) {
      EXPECT_EQ(*reinterpret_cast<const int32_t*>(sums.data()), expected);
    } else {
      EXPECT_EQ(sums[0], expected * 8);
    }
  }
}

// All positions name the same row. Its sum is the largest that 32 bits hold.
TEST(NarrowSums, OfTablesFitByTheNumberOfPositions) {
  constexpr int64_t kRows = 3, kChannels = 2, kMost = 65535;
  const auto width = [](int64_t positions, int bits) {
    const Shape inputs[] = {Shape{1, positions}};
    OpShapes shapes;
    shapes.inputs = inputs;
    shapes.wide_gradient.bits = bits;
    return kEmbedding.integer.sum_width(shapes);
  };
  EXPECT_EQ(width(kMost, 16), SumWidth::kInt32);
  EXPECT_EQ(width(kMost + 1, 16), SumWidth::kInt64);
  EXPECT_EQ(width(kMost * 256, 8), SumWidth::kInt32);

  std::vector<int32_t> rows(kMost, 1);
  std::vector<int16_t> gradient(kMost * kChannels, -32768);
  std::vector<int8_t> table(kRows * kChannels);
  std::vector<std::byte> workspace((kRows + 1 + kMost) * sizeof(int32_t));
  int16_t exponent = -7, gradient_exponent = -20;
  const Tensor indices = tensor_of(rows, Shape{1, kMost}, &exponent, nullptr);
  Tensor grad_output = tensor_of(gradient, Shape{1, kMost, kChannels}, &gradient_exponent, nullptr);
  grad_output.bits = 16;
  const auto sums_of_rows = [&](auto zero, int16_t sum_exponent) {
    std::vector<decltype(zero)> sums(kRows * kChannels, zero);
    ParameterView view;
    view.mantissa = tensor_of(table, Shape{kRows, kChannels}, &exponent, nullptr);
    view.gradient = tensor_of(sums, Shape{kRows, kChannels}, &sum_exponent, nullptr);
    with_context(view, {}, 2, [&](OpContext& c) {
      c.inputs = {&indices, 1};
      c.grad_outputs = {&grad_output, 1};
      c.memory.workspace = workspace.data();
      kEmbedding.integer.grad_weights.run(c);
    });
    EXPECT_EQ(sum_exponent, sizeof(zero) == 4 ? gradient_exponent : gradient_exponent - 3);
    return std::vector<int64_t>(sums.begin(), sums.end());
  };
  const int64_t sum = -32768 * kMost;
  EXPECT_EQ(sums_of_rows(int32_t{0}, 99), (std::vector<int64_t>{0, 0, sum, sum, 0, 0}));
  EXPECT_EQ(sums_of_rows(int64_t{0}, static_cast<int16_t>(gradient_exponent - 3)),
            (std::vector<int64_t>{0, 0, 8 * sum, 8 * sum, 0, 0}));
}

}  // namespace
}  // namespace mantissa::ops
