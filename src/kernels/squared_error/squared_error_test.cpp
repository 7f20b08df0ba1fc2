// Loss and gradient against their definitions in long double and 128 bits.
#include "kernels/squared_error/squared_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

// The logit in Q24 by its definition.
Wide logit_q24(int32_t logit, int exponent) {
  const Wide q24 = exponent + 24 > 60 ? (logit == 0  ? 0
                                         : logit > 0 ? Wide{1} << 90
                                                     : -(Wide{1} << 90))
                                      : exact_rne(logit, -(exponent + 24));
  return exact_saturate(q24, Wide{1} << 36);
}

TEST(SquaredError, LossAndGradientAreTheirDefinitions) {
  constexpr int64_t kRows = 9;
  for (const int64_t classes : {1, 2, 3, 10, 1000}) {
    for (const int exponent : {-90, -40, -24, -20, -8, 0, 5, 100}) {
      const auto logits = test_values<int32_t>(kRows * classes, 21, exponent < -30 ? 31 : 24);
      std::vector<int32_t> labels(kRows);
      for (int64_t row = 0; row < kRows; ++row) {
        labels[row] = static_cast<int32_t>(row * 7 % classes);
      }
      const SquaredError args = {logits.data(), labels.data(), exponent, classes};
      std::vector<Wide> wide;
      int64_t correct = 0;
      for (int64_t row = 0; row < kRows; ++row) {
        long double squares = 0;
        for (int64_t c = 0; c < classes; ++c) {
          const Wide d = logit_q24(logits[row * classes + c], exponent) -
                         (c == labels[row] ? Wide{1} << 24 : 0);
          squares += static_cast<long double>(d) * static_cast<long double>(d);
          // Twice d in Q30 over the classes: the nearest integer, ties to even.
          const Wide numerator = d * 128;
          Wide nearest = numerator / classes;
          for (const Wide candidate : {nearest - 1, nearest + 1}) {
            const auto distance = [&](Wide n) { return exact_magnitude(n * classes - numerator); };
            if (distance(candidate) < distance(nearest) ||
                (distance(candidate) == distance(nearest) && candidate % 2 == 0)) {
              nearest = candidate;
            }
          }
          wide.push_back(nearest);
        }
        const int32_t* from = logits.data() + row * classes;
        correct += std::max_element(from, from + classes) - from == labels[row];
        const long double wanted = squares / static_cast<long double>(classes) * 0x1p-24L;
        const int64_t found = kSquaredErrorReference.loss(args, row, row + 1).loss_q24;
        EXPECT_NEAR(static_cast<double>(found), static_cast<double>(wanted),
                    0.5001 + static_cast<double>(wanted) * 1e-15);
      }
      EXPECT_EQ(kSquaredErrorReference.loss(args, 0, kRows).correct, correct);
      for (const int bits : {32, 16, 12, 8, 6}) {
        for (const int shift : {0, 3, 16, 24, 40, 62, 90}) {
          with_wide_gradient_type(bits, [&](auto type) {
            std::vector<decltype(type)> grad(wide.size());
            const WideStatistics found =
                kSquaredErrorReference.gradient(args, shift, {grad.data(), bits}, 0, kRows);
            WideStatistics wanted;
            for (size_t i = 0; i < wide.size(); ++i) {
              const Wide rounded = exact_rne(wide[i], shift);
              const Wide narrow = exact_saturate(rounded, mantissa_limit(bits));
              wanted += {exact_magnitude(wide[i]), narrow != rounded};
              ASSERT_EQ(grad[i], static_cast<int64_t>(narrow)) << shift << " " << bits;
            }
            EXPECT_EQ(found.maximum, wanted.maximum);
            EXPECT_EQ(found.saturated, wanted.saturated);
          });
        }
      }
    }
  }
}

// A target has an exponent, as a logit has. With equal exponents the loss of z against t is the
// loss of z - t against zeros.
TEST(SquaredError, TargetsAreSubtractedAtTheirOwnExponent) {
  constexpr int64_t kRows = 5, kOutputs = 3;
  for (const int exponent : {-30, -12, -8, 0}) {
    const auto logits = test_values<int32_t>(kRows * kOutputs, 3, 12);
    const auto targets = test_values<int16_t>(kRows * kOutputs, 4, 12);
    const std::vector<int16_t> zeros(kRows * kOutputs, 0);
    std::vector<int32_t> differences;
    for (size_t i = 0; i < logits.size(); ++i) differences.push_back(logits[i] - targets[i]);
    const SquaredError args{.logits = logits.data(),
                            .exponent = exponent,
                            .classes = kOutputs,
                            .targets = targets.data(),
                            .target_exponent = exponent};
    SquaredError shifted = args;
    shifted.logits = differences.data();
    shifted.targets = zeros.data();
    const bool is_exact = exponent >= -24;  // in Q24
    const LossSums found = kSquaredErrorReference.loss(args, 0, kRows);
    if (is_exact) {
      EXPECT_EQ(found.loss_q24, kSquaredErrorReference.loss(shifted, 0, kRows).loss_q24);
    }
    EXPECT_EQ(found.correct, 0);
    // The same targets at another exponent.
    std::vector<int16_t> halves;
    for (const int16_t target : targets) halves.push_back(static_cast<int16_t>(2 * target));
    SquaredError other = args;
    other.targets = halves.data();
    other.target_exponent = exponent - 1;
    EXPECT_EQ(found.loss_q24, kSquaredErrorReference.loss(other, 0, kRows).loss_q24);
    std::vector<int16_t> grad(logits.size()), wanted(logits.size());
    kSquaredErrorReference.gradient(args, 8, {grad.data(), 16}, 0, kRows);
    kSquaredErrorReference.gradient(shifted, 8, {wanted.data(), 16}, 0, kRows);
    if (is_exact) {
      EXPECT_EQ(grad, wanted);
    }
  }
}

TEST(SquaredError, APerfectFitLosesNothing) {
  const std::vector<int32_t> logits = {0, 256, 0, 256, 0, 0};
  const std::vector<int32_t> labels = {1, 0};
  const SquaredError args = {logits.data(), labels.data(), -8, 3};
  EXPECT_EQ(kSquaredErrorReference.loss(args, 0, 2).loss_q24, 0);
  EXPECT_EQ(kSquaredErrorReference.loss(args, 0, 2).correct, 2);
  std::vector<int16_t> grad(6, 9);
  EXPECT_EQ(kSquaredErrorReference.gradient(args, 0, {grad.data(), 16}, 0, 2).maximum, 0u);
  EXPECT_EQ(grad, std::vector<int16_t>(6, 0));
}

}  // namespace
}  // namespace mantissa::kernels
