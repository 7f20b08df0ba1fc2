// Every instruction set against the reference. The reference against a softmax in long double, and
// at the extremes.
#include "kernels/softmax/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

constexpr double kQ30 = 1 << 30;

std::vector<long double> exact_probabilities(const int32_t* logits, int64_t classes, int exponent) {
  std::vector<long double> powers(classes);
  const int32_t largest = *std::max_element(logits, logits + classes);
  long double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    powers[c] = expl(ldexpl(static_cast<long double>(logits[c]) - largest, exponent));
    sum += powers[c];
  }
  for (auto& power : powers) power /= sum;
  return powers;
}

// The gradient in `bits` bits against its definition on the kernel's own probabilities. Checks its
// maximum, too.
template <typename T>
void check_gradient(const SoftmaxCrossEntropy& args, const std::vector<int32_t>& probabilities,
                    int64_t rows, int bits) {
  for (const int shift : {std::max(0, 31 - bits), std::max(0, 29 - bits)}) {
    std::vector<T> grad(probabilities.size());
    WideStatistics wanted;
    const WideStatistics got =
        kSoftmaxReference.gradient(args, shift, {grad.data(), bits}, 0, rows);
    for (int64_t i = 0; i < rows * args.classes; ++i) {
      const bool is_label = i % args.classes == args.labels[i / args.classes];
      const int64_t wide = probabilities[i] - (is_label ? int64_t{1} << 30 : 0);
      const Wide rounded = exact_rne(wide, shift);
      const Wide narrow = exact_saturate(rounded, mantissa_limit(bits));
      wanted += {exact_magnitude(wide), narrow != rounded};
      ASSERT_TRUE(grad[i] == narrow) << bits << " bits, shift " << shift;
    }
    EXPECT_EQ(got.maximum, wanted.maximum);
    EXPECT_EQ(got.saturated, wanted.saturated);
  }
}

TEST(Softmax, AgreesWithLongDouble) {
  constexpr int64_t kRows = 40;
  for (const int64_t classes : {2, 10, 100}) {
    for (const int exponent : {-28, -12, -4, 0}) {
      const auto logits = test_values<int32_t>(kRows * classes, 1, std::min(3 - exponent, 31));
      std::vector<int32_t> labels(kRows);
      for (int64_t row = 0; row < kRows; ++row) {
        labels[row] = static_cast<int32_t>(row * 7 % classes);
      }
      const SoftmaxCrossEntropy args = {logits.data(), labels.data(), exponent, classes};
      std::vector<int32_t> probabilities(kRows * classes);
      kSoftmaxReference.probabilities(args, probabilities.data(), 0, kRows);
      const LossSums loss = kSoftmaxReference.loss(args, 0, kRows);
      long double wanted_loss = 0;
      int64_t correct = 0;
      for (int64_t row = 0; row < kRows; ++row) {
        const int32_t* from = logits.data() + row * classes;
        const auto exact = exact_probabilities(from, classes, exponent);
        wanted_loss -= log2l(exact[labels[row]]);
        correct += std::max_element(from, from + classes) - from == labels[row];
        for (int64_t c = 0; c < classes; ++c) {
          // log2 e in Q16 and the fraction in Q16 leave about 2^-16 in relative terms.
          ASSERT_NEAR(probabilities[row * classes + c] / kQ30, static_cast<double>(exact[c]), 5e-5);
        }
      }
      EXPECT_EQ(loss.correct, correct);
      EXPECT_NEAR(std::ldexp(static_cast<double>(loss.loss_q24), -24),
                  static_cast<double>(wanted_loss), kRows * 1e-3);
      for (const int bits : {32, 16, 12, 8, 6}) {
        with_wide_gradient_type(bits, [&](auto type) {
          check_gradient<decltype(type)>(args, probabilities, kRows, bits);
        });
      }
    }
  }
}

// Loss and gradient against smoothed targets, by the definition of these targets.
TEST(Softmax, SmoothedTargets) {
  constexpr int64_t kRows = 20;
  for (const int64_t classes : {2, 7, 10, 1000}) {
    const auto logits = test_values<int32_t>(kRows * classes, 3, 15);
    std::vector<int32_t> labels(kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      labels[row] = static_cast<int32_t>(row * 3 % classes);
    }
    for (const int64_t smoothing : {1, 6554, 65535}) {
      const SoftmaxCrossEntropy args = {logits.data(), labels.data(), -12, classes, smoothing};
      std::vector<int32_t> probabilities(kRows * classes);
      kSoftmaxReference.probabilities(args, probabilities.data(), 0, kRows);
      const long double epsilon = static_cast<long double>(smoothing) / 65536;
      // To nearest; no tie has these numbers.
      const auto other = static_cast<int64_t>(
          std::nearbyint(epsilon / static_cast<long double>(classes) * 0x1p30L));
      long double wanted = 0;
      std::vector<int16_t> grad(kRows * classes);
      const int shift = 16;
      kSoftmaxReference.gradient(args, shift, {grad.data(), 16}, 0, kRows);
      for (int64_t row = 0; row < kRows; ++row) {
        const auto exact = exact_probabilities(&logits[row * classes], classes, -12);
        for (int64_t c = 0; c < classes; ++c) {
          const bool is_label = c == labels[row];
          const int64_t target = is_label ? (int64_t{1} << 30) - (classes - 1) * other : other;
          wanted -= static_cast<long double>(target) * 0x1p-30L * log2l(exact[c]);
          const int64_t i = row * classes + c;
          ASSERT_TRUE(grad[i] == exact_rne(probabilities[i] - target, shift)) << i;
        }
      }
      EXPECT_NEAR(
          std::ldexp(static_cast<double>(kSoftmaxReference.loss(args, 0, kRows).loss_q24), -24),
          static_cast<double>(wanted), kRows * 1e-3);
    }
  }
}

// A weight multiplies a row's loss and its gradient before the gradient is rounded; a label below 0
// leaves the row out.
TEST(Softmax, WeightedRows) {
  constexpr int64_t kRows = 20, kClasses = 7;
  const auto logits = test_values<int32_t>(kRows * kClasses, 3, 15);
  std::vector<int32_t> labels(kRows);
  std::vector<int16_t> weights(kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    labels[row] = static_cast<int32_t>(row % 5 == 3 ? -1 : row * 3 % kClasses);
    weights[row] = static_cast<int16_t>(row % 4 == 0 ? 0 : row * 1637);
  }
  SoftmaxCrossEntropy args = {logits.data(), labels.data(), -12, kClasses};
  for (const bool weighted : {false, true}) {
    args.weights = weighted ? weights.data() : nullptr;
    std::vector<int32_t> probabilities(kRows * kClasses);
    kSoftmaxReference.probabilities(args, probabilities.data(), 0, kRows);
    std::vector<int16_t> grad(kRows * kClasses);
    const int shift = weighted ? 31 : 16;
    kSoftmaxReference.gradient(args, shift, {grad.data(), 16}, 0, kRows);
    int64_t wanted = 0, correct = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t weight = labels[row] < 0 ? 0 : weighted ? weights[row] : 1;
      for (int64_t i = row * kClasses; i < (row + 1) * kClasses; ++i) {
        const bool is_label = i - row * kClasses == labels[row];
        const int64_t wide = (probabilities[i] - (is_label ? int64_t{1} << 30 : 0)) * weight;
        ASSERT_TRUE(grad[i] == exact_rne(wide, shift)) << i;
      }
      if (weight == 0) continue;
      const int32_t label = labels[row];
      const SoftmaxCrossEntropy alone = {&logits[row * kClasses], &label, -12, kClasses};
      const LossSums one = kSoftmaxReference.loss(alone, 0, 1);
      wanted += static_cast<int64_t>(
          exact_rne(Wide{one.loss_q24} * weight, weighted ? kRowWeightBits : 0));
      correct += one.correct;
    }
    EXPECT_EQ(kSoftmaxReference.loss(args, 0, kRows).loss_q24, wanted);
    EXPECT_EQ(kSoftmaxReference.loss(args, 0, kRows).correct, correct);
  }
}

TEST(Softmax, CertaintyAndUniformity) {
  const std::vector<int32_t> logits = {INT32_MIN, INT32_MAX, 0, 5, 5, 5};
  const std::vector<int32_t> labels = {1, 2};
  const SoftmaxCrossEntropy args = {logits.data(), labels.data(), 20, 3};
  std::vector<int32_t> probabilities(6);
  kSoftmaxReference.probabilities(args, probabilities.data(), 0, 2);
  EXPECT_EQ(probabilities, (std::vector<int32_t>{0, 1 << 30, 0, 357913941, 357913941, 357913941}));
  EXPECT_EQ(kSoftmaxReference.loss(args, 0, 1).loss_q24, 0);
  EXPECT_EQ(kSoftmaxReference.loss(args, 0, 1).correct, 1);
  EXPECT_EQ(kSoftmaxReference.loss(args, 1, 2).correct, 0) << "the first of equals is the guess";
  EXPECT_EQ(kSoftmaxReference.loss(args, 1, 1).loss_q24, 0) << "no rows";
}

TEST(Softmax, GradientsShiftedAwayAreZero) {
  const std::vector<int32_t> logits = {3, -3};
  const std::vector<int32_t> labels = {1};
  const SoftmaxCrossEntropy args = {logits.data(), labels.data(), 0, 2};
  for (const int shift : {31, 62, 63, 90}) {
    std::vector<int16_t> grad(2, 9);
    const WideStatistics statistics =
        kSoftmaxReference.gradient(args, shift, {grad.data(), 16}, 0, 1);
    EXPECT_EQ(grad, (std::vector<int16_t>{0, 0})) << shift;
    EXPECT_EQ(statistics.saturated, 0);
  }
  std::vector<int16_t> grad(2);
  EXPECT_EQ(kSoftmaxReference.gradient(args, 0, {grad.data(), 16}, 0, 1).saturated, 2);
  EXPECT_EQ(grad, (std::vector<int16_t>{32767, -32767}));
  std::vector<int8_t> grad6(2);
  EXPECT_EQ(kSoftmaxReference.gradient(args, 0, {grad6.data(), 6}, 0, 1).saturated, 2);
  EXPECT_EQ(grad6, (std::vector<int8_t>{31, -31}));
}

class SoftmaxRows : public RowTest<SoftmaxKernels> {};

// All results of rows [begin, end).
struct Results {
  LossSums loss;
  std::vector<int32_t> probabilities;
  std::vector<int64_t> gradient;
  WideStatistics statistics;

  Results(const SoftmaxKernels& kernels, const SoftmaxCrossEntropy& args, int shift, int bits,
          int64_t begin, int64_t end)
      : loss(kernels.loss(args, begin, end)), probabilities(end * args.classes, -1) {
    kernels.probabilities(args, probabilities.data(), begin, end);
    with_wide_gradient_type(bits, [&](auto type) {
      std::vector<decltype(type)> grad(end * args.classes, 1);
      statistics = kernels.gradient(args, shift, {grad.data(), bits}, begin, end);
      gradient.assign(grad.begin(), grad.end());
    });
  }
};

void check_rows(const SoftmaxKernels& kernels, const SoftmaxCrossEntropy& args, int64_t rows) {
  constexpr int kShifts[] = {0, 12, 15, 24, 63};
  constexpr int kBits[] = {32, 16, 12, 8, 6};
  for (int i = 0; i < 5; ++i) {
    const int64_t begin = std::min<int64_t>(rows, i);
    const Results got(kernels, args, kShifts[i], kBits[i], begin, rows);
    const Results wanted(kSoftmaxReference, args, kShifts[i], kBits[i], begin, rows);
    ASSERT_EQ(got.loss.loss_q24, wanted.loss.loss_q24);
    ASSERT_EQ(got.loss.correct, wanted.loss.correct);
    ASSERT_EQ(got.probabilities, wanted.probabilities);
    ASSERT_EQ(got.gradient, wanted.gradient);
    ASSERT_EQ(got.statistics.maximum, wanted.statistics.maximum);
    ASSERT_EQ(got.statistics.saturated, wanted.statistics.saturated);
  }
}

TEST_P(SoftmaxRows, EqualTheReference) {
  for (const int64_t rows : {0, 1, 7, 8, 21, 64}) {
    for (const int64_t classes : {1, 2, 3, 10, 64, 65, 257}) {
      std::vector<int32_t> labels(rows);
      for (int64_t row = 0; row < rows; ++row) {
        labels[row] = static_cast<int32_t>(row * 5 % classes);
      }
      for (const int exponent : {-70, -62, -31, -20, -12, -4, 0, 1, 40}) {
        for (const int bits : {8, 24, 31}) {
          const auto logits = test_values<int32_t>(rows * classes, 7, bits);
          for (const int64_t smoothing : {0, 6554}) {
            SCOPED_TRACE(testing::Message() << rows << " rows, " << classes << " classes, exponent "
                                            << exponent << ", " << bits << " bits");
            check_rows(*GetParam(), {logits.data(), labels.data(), exponent, classes, smoothing},
                       rows);
          }
        }
      }
    }
  }
}

TEST_P(SoftmaxRows, WeightedAndIgnoredRowsEqualTheReference) {
  constexpr int64_t kRows = 37;
  for (const int64_t classes : {2, 10, 257}) {
    const auto logits = test_values<int32_t>(kRows * classes, 7, 24);
    std::vector<int32_t> labels(kRows);
    std::vector<int16_t> weights(kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      labels[row] = static_cast<int32_t>(row % 5 == 3 ? -1 : row * 5 % classes);
      weights[row] = static_cast<int16_t>(row % 4 == 0 ? 0 : row * 881);
    }
    for (const int64_t smoothing : {0, 6554}) {
      SoftmaxCrossEntropy args = {logits.data(), labels.data(), -20, classes, smoothing};
      check_rows(*GetParam(), args, kRows);
      args.weights = weights.data();
      check_rows(*GetParam(), args, kRows);
    }
  }
}

// The vocabularies of language models are the longest rows: sums of powers stay within 2^48.
constexpr int64_t kMostTokens = int64_t{1} << 18;

TEST_P(SoftmaxRows, MostClasses) {
  constexpr int64_t kRows = 9;
  for (const int64_t classes : {int64_t{4097}, kMostTokens}) {
    const int64_t rows = classes == kMostTokens ? 2 : kRows;
    const auto logits = test_values<int32_t>(rows * classes, 8, 16);
    const std::vector<int32_t> labels(rows, static_cast<int32_t>(classes - 1));
    check_rows(*GetParam(), {logits.data(), labels.data(), -12, classes}, rows);
    const std::vector<int32_t> equal(rows * classes, -5);
    check_rows(*GetParam(), {equal.data(), labels.data(), -12, classes, 100}, rows);
  }
}

TEST(Softmax, EqualLogitsOfTheMostClasses) {
  constexpr int64_t kClasses = kMostTokens;
  const std::vector<int32_t> logits(kClasses, 7), labels = {kClasses - 1};
  const SoftmaxCrossEntropy args = {logits.data(), labels.data(), -12, kClasses};
  EXPECT_EQ(kSoftmaxReference.loss(args, 0, 1).loss_q24, int64_t{18} << 24);  // log2 of 2^18
  std::vector<int32_t> grad(kClasses);
  const WideStatistics statistics = kSoftmaxReference.gradient(args, 0, {grad.data(), 32}, 0, 1);
  EXPECT_EQ(grad.front(), 1 << 12);
  EXPECT_EQ(grad.back(), (1 << 12) - (1 << 30));
  EXPECT_EQ(std::accumulate(grad.begin(), grad.end(), int64_t{0}), 0);
  EXPECT_EQ(statistics.saturated, 0);
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, SoftmaxRows, testing::Values(&kSoftmaxAvx2, &kSoftmaxAvx512Vnni),
                         row_name);
#else
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SoftmaxRows);
#endif

}  // namespace
}  // namespace mantissa::kernels
