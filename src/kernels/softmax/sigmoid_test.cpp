// Sigmoid cross-entropy against its definition in long double: in C, and by the softmax of every
// instruction set. All give the same bits.
#include "kernels/softmax/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kExamples = 23;

// Labels of 0, 1 and unknown, one for each output; or the number of the output that is 1.
std::vector<int32_t> labels_for(int64_t outputs, bool by_output) {
  std::vector<int32_t> labels;
  const int64_t count = by_output ? kExamples * outputs : kExamples;
  const int64_t values = by_output || outputs == 1 ? 2 : outputs;
  for (int64_t i = 0; i < count; ++i) {
    labels.push_back(i % 7 == 3 ? -1 : static_cast<int32_t>(i * 5 % values));
  }
  return labels;
}

// The target of a logit by the definition.
int32_t target_of(const std::vector<int32_t>& labels, bool by_output, int64_t outputs, int64_t i) {
  if (by_output) return labels[i];
  const int32_t label = labels[i / outputs];
  if (label < 0 || outputs == 1) return label;
  return label == i % outputs ? 1 : 0;
}

struct Case {
  int64_t outputs;
  bool by_output, weighted;
  int exponent;
};

class SigmoidRows : public RowTest<SoftmaxKernels> {
 protected:
  // Loss, correct rows, probabilities and gradient against long double.
  void check(const Case& test) {
    const SoftmaxKernels& softmax = *GetParam();
    const auto [outputs, by_output, weighted, exponent] = test;
    const auto logits = test_values<int32_t>(kExamples * outputs, 5, std::min(4 - exponent, 31));
    const std::vector<int32_t> labels = labels_for(outputs, by_output);
    std::vector<int16_t> weights;
    for (int64_t row = 0; row < kExamples; ++row) {
      weights.push_back(static_cast<int16_t>(row % 4 == 0 ? 0 : row * 1024));
    }
    const SigmoidCrossEntropy args = {logits.data(),
                                      {labels.data(), outputs, by_output},
                                      exponent,
                                      weighted ? weights.data() : nullptr};
    std::vector<int32_t> probabilities(kExamples * outputs);
    softmax.sigmoid_probabilities(args, probabilities.data(), 0, kExamples);
    std::vector<int16_t> gradient(kExamples * outputs);
    const int shift = weighted ? 31 : 16;
    const WideStatistics statistics =
        softmax.sigmoid_gradient(args, shift, {gradient.data(), 16}, 0, kExamples);
    long double lost = 0;
    int64_t correct = 0;
    uint64_t maximum = 0;
    for (int64_t row = 0; row < kExamples; ++row) {
      const int64_t weight = weighted ? weights[row] : 1;
      int64_t known = 0, right = 0;
      for (int64_t i = row * outputs; i < (row + 1) * outputs; ++i) {
        const long double z = ldexpl(static_cast<long double>(logits[i]), exponent);
        const long double p = 1 / (1 + expl(-z));
        ASSERT_NEAR(probabilities[i] * 0x1p-30, static_cast<double>(p), 5e-5);
        const int32_t target = target_of(labels, by_output, outputs, i);
        const int64_t wide = target < 0 ? 0 : (probabilities[i] - (int64_t{target} << 30)) * weight;
        ASSERT_TRUE(gradient[i] == exact_saturate(exact_rne(wide, shift), 32767)) << i;
        maximum = std::max(maximum, magnitude(wide));
        if (target < 0 || weight == 0) continue;
        const long double other = target == 1 ? -z : z;  // log(1 + e^other)
        lost += (std::max(other, 0.0L) + log1pl(expl(-fabsl(other)))) * M_LOG2E *
                (weighted ? weight / 1024.0L : 1.0L);
        ++known;
        right += (z > 0) == (target == 1);
      }
      correct += known > 0 && known == right;
    }
    const LossSums loss = softmax.sigmoid_loss(args, 0, kExamples);
    const double factor = weighted ? 23 : 1;
    EXPECT_NEAR(std::ldexp(static_cast<double>(loss.loss_q24), -24), static_cast<double>(lost),
                factor * static_cast<double>(kExamples * outputs) * 1e-3);
    EXPECT_EQ(loss.correct, correct);
    EXPECT_EQ(statistics.maximum, maximum);
    // In parts, and with the reference.
    LossSums parts = softmax.sigmoid_loss(args, 0, 5);
    const LossSums rest = softmax.sigmoid_loss(args, 5, kExamples);
    EXPECT_EQ(parts.loss_q24 + rest.loss_q24, loss.loss_q24);
    EXPECT_EQ(kSoftmaxReference.sigmoid_loss(args, 0, kExamples).loss_q24, loss.loss_q24);
    std::vector<int16_t> wanted(gradient.size());
    kSoftmaxReference.sigmoid_gradient(args, shift, {wanted.data(), 16}, 0, 5);
    kSoftmaxReference.sigmoid_gradient(args, shift, {wanted.data(), 16}, 5, kExamples);
    EXPECT_EQ(gradient, wanted);
  }
};

TEST_P(SigmoidRows, AgreeWithLongDouble) {
  for (const int64_t outputs : {1, 2, 10, 64, 65, 150}) {
    for (const bool by_output : {false, true}) {
      for (const bool weighted : {false, true}) {
        for (const int exponent : {-27, -12, -4, 0}) {
          SCOPED_TRACE(testing::Message() << outputs << " outputs, by output " << by_output
                                          << ", weighted " << weighted << ", 2^" << exponent);
          check({outputs, by_output, weighted, exponent});
        }
      }
    }
  }
}

// The logit belongs to the second of two classes; the first has the logit 0.
TEST_P(SigmoidRows, OneOutputIsASoftmaxOfTwo) {
  const auto logits = test_values<int32_t>(kExamples, 2, 20);
  const std::vector<int32_t> labels = labels_for(1, false);
  std::vector<int32_t> pairs;
  for (const int32_t logit : logits) pairs.insert(pairs.end(), {0, logit});
  const SigmoidCrossEntropy one = {logits.data(), {labels.data(), 1, false}, -16};
  const SoftmaxCrossEntropy two = {pairs.data(), labels.data(), -16, 2};
  const LossSums a = GetParam()->sigmoid_loss(one, 0, kExamples);
  const LossSums b = GetParam()->loss(two, 0, kExamples);
  EXPECT_EQ(a.loss_q24, b.loss_q24);
  EXPECT_EQ(a.correct, b.correct);
}

TEST_P(SigmoidRows, ExtremeLogitsAreCertain) {
  const std::vector<int32_t> logits = {INT32_MIN, INT32_MAX, 0};
  const std::vector<int32_t> labels = {0, 1, 0};
  for (const int exponent : {-31, 0, 40}) {
    const SigmoidCrossEntropy args = {logits.data(), {labels.data(), 3, true}, exponent};
    std::vector<int32_t> gradient(3);
    GetParam()->sigmoid_gradient(args, 0, {gradient.data(), 32}, 0, 1);
    EXPECT_EQ(gradient[2], 1 << 29);
    EXPECT_EQ(GetParam()->sigmoid_loss(args, 0, 1).correct, 1) << "0 is no sign of 1";
    if (exponent < 0) continue;
    EXPECT_EQ(gradient[0], 0);
    EXPECT_EQ(gradient[1], 0);
    EXPECT_EQ(GetParam()->sigmoid_loss(args, 0, 1).loss_q24, 1 << 24);
  }
  const std::vector<int32_t> wrong(3, -1);
  const SigmoidCrossEntropy unknown = {logits.data(), {wrong.data(), 3, true}, 0};
  EXPECT_EQ(GetParam()->sigmoid_loss(unknown, 0, 1).loss_q24, 0);
  EXPECT_EQ(GetParam()->sigmoid_loss(unknown, 0, 1).correct, 0);
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, SigmoidRows,
                         testing::Values(&kSoftmaxReference, &kSoftmaxAvx2, &kSoftmaxAvx512Vnni),
                         row_name);
#else
INSTANTIATE_TEST_SUITE_P(Rows, SigmoidRows, testing::Values(&kSoftmaxReference), row_name);
#endif

}  // namespace
}  // namespace mantissa::kernels
