// The loss of many classes in fp32 against its definition in double, for any number of threads.
#include "ops/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/system/thread_pool.h"
#include "kernels/kernel_table.h"
#include "ops/fp32.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kLossRows = 37;
// Rows: without a label; with a weight of 0; with a weight of 1.5; with a weight of 1.
const std::vector<int16_t> kWeights = {1024, 0, 1536, 1024};

struct Loss {
  int64_t classes;
  std::vector<float> logits, gradient;
  std::vector<int32_t> labels;
  std::vector<int16_t> weights;
  LossTotals loss;
  StepTotals totals;

  explicit Loss(int64_t classes_) : classes(classes_), gradient(kLossRows * classes, 7.0F) {
    uint64_t state = 1;
    for (int64_t i = 0; i < kLossRows * classes; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      logits.push_back(static_cast<float>(state >> 40) * 0x1p-21F - 4);
    }
    for (int64_t n = 0; n < kLossRows; ++n) {
      labels.push_back(n % 4 == 0 ? -1 : static_cast<int32_t>(n * 7 % classes));
      weights.push_back(kWeights[n % 4]);
      // In some rows the label has the largest logit. In others class 0 has the same logit, and
      // comes first.
      if (n % 8 == 2) logits[n * classes + labels[n]] = 9;
      if (n % 8 == 6) logits[n * classes] = logits[n * classes + labels[n]] = 9;
    }
  }

  void compute(double smoothing, int threads) {
    compute(*loss_of(LossKind::kCrossEntropy).op, {{"smoothing", smoothing}}, threads);
  }

  void compute(const Op& op, const Attributes& given, int threads) {
    const auto tensor = [](void* data, DataType type, const Shape& shape) {
      Tensor made;
      made.data = data, made.type = type, made.shape = shape;
      return made;
    };
    const Attributes attributes = *complete(given, op.attributes);
    const bool by_output = std::ssize(labels) == kLossRows * classes;
    const std::vector<Tensor> inputs = {
        tensor(logits.data(), DataType::kFloat, Shape{kLossRows, classes}),
        tensor(labels.data(), DataType::kInt32,
               by_output ? Shape{kLossRows, classes} : Shape{kLossRows}),
        tensor(weights.data(), DataType::kInt16, Shape{kLossRows})};
    const std::vector<Tensor> gradients = {
        tensor(gradient.data(), DataType::kFloat, Shape{kLossRows, classes}), {}, {}};
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    ThreadPool pool(threads);
    OpContext c;
    c.node.attributes = &attributes;
    c.inputs = inputs;
    c.grad_inputs = gradients;
    c.kernel.pool = &pool;
    c.kernel.table = &table;
    c.step.totals = &totals;
    c.step.loss = &loss;
    op.fp32->forward.run(c);
    op.fp32->grad_input.run(c);
  }
};

TEST(Fp32Loss, IsItsDefinition) {
  for (const int64_t classes : {3, 10, 5000}) {
    for (const double smoothing : {0.0, 0.125}) {
      Loss of(classes);
      of.compute(smoothing, 2);
      double loss = 0;
      int64_t correct = 0;
      for (int64_t n = 0; n < kLossRows; ++n) {
        const float* x = of.logits.data() + n * classes;
        const double weight = of.labels[n] < 0 ? 0 : of.weights[n] / 1024.0;
        double sum = 0;
        int64_t largest = 0;
        for (int64_t k = 0; k < classes; ++k) {
          sum += std::exp(double{x[k]});
          if (x[k] > x[largest]) largest = k;
        }
        if (weight > 0) correct += largest == of.labels[n];
        for (int64_t k = 0; k < classes; ++k) {
          const double target =
              smoothing / static_cast<double>(classes) + (k == of.labels[n] ? 1 - smoothing : 0);
          loss += weight * target * (std::log(sum) - x[k]) / std::log(2.0);
          ASSERT_NEAR(of.gradient[n * classes + k], weight * (std::exp(x[k]) / sum - target), 5e-7)
              << classes << " " << n << " " << k;
        }
      }
      EXPECT_NEAR(static_cast<double>(of.loss.loss_q24) * 0x1p-24 / loss, 1, 1e-6) << classes;
      EXPECT_EQ(of.loss.correct, correct);
      EXPECT_EQ(of.loss.counted, 18);
      EXPECT_FALSE(of.totals.exponent_overflow);
    }
  }
}

// Labels of one output; of the output that is 1; and of each output. Some are not known.
TEST(Fp32Loss, OfSigmoidsIsItsDefinition) {
  for (const int64_t outputs : {1, 3, 10}) {
    for (const bool by_output : {false, true}) {
      Loss of(std::max<int64_t>(outputs, 2));
      of.classes = outputs;
      of.logits.resize(kLossRows * outputs);
      of.gradient.resize(kLossRows * outputs);
      const std::vector<int32_t> by_row = of.labels;
      if (by_output) {
        of.labels.clear();
        for (int64_t i = 0; i < kLossRows * outputs; ++i) {
          of.labels.push_back(static_cast<int32_t>(i % 5) % 3 - 1);
        }
      }
      of.compute(*loss_of(LossKind::kSigmoids).op, {}, 2);
      double loss = 0;
      int64_t correct = 0;
      for (int64_t n = 0; n < kLossRows; ++n) {
        const double weight = of.weights[n] / 1024.0;
        int64_t known = 0, right = 0;
        for (int64_t i = n * outputs; i < (n + 1) * outputs; ++i) {
          const int32_t row = by_row[n];
          const int32_t target = by_output                 ? of.labels[i]
                                 : row < 0 || outputs == 1 ? row
                                                           : int32_t{row == i % outputs};
          const double p = 1 / (1 + std::exp(-double{of.logits[i]}));
          ASSERT_NEAR(of.gradient[i], target < 0 ? 0 : weight * (p - target), 5e-7) << i;
          if (target < 0 || weight == 0) continue;
          loss -= weight * std::log2(target == 1 ? p : 1 - p);
          ++known;
          right += (of.logits[i] > 0) == (target == 1);
        }
        correct += known > 0 && known == right;
      }
      EXPECT_NEAR(static_cast<double>(of.loss.loss_q24) * 0x1p-24 / loss, 1, 1e-6);
      EXPECT_EQ(of.loss.correct, correct);
    }
  }
}

TEST(Fp32Loss, HasTheSameBitsForAnyNumberOfThreads) {
  Loss one(5000), three(5000);
  one.compute(0.125, 1);
  three.compute(0.125, 3);
  EXPECT_EQ(one.gradient, three.gradient);
  EXPECT_EQ(one.loss.loss_q24, three.loss.loss_q24);
  EXPECT_EQ(one.loss.correct, three.loss.correct);
}

// A row without a label does not count, even if its logits are NaN.
TEST(Fp32Loss, TellsOfLogitsThatAreNoNumbers) {
  Loss ignored(10), counted(10);
  ignored.logits[0] = counted.logits[20 + 3] = std::nanf("");
  ignored.compute(0, 2);
  counted.compute(0, 2);
  EXPECT_FALSE(ignored.totals.exponent_overflow);
  EXPECT_TRUE(counted.totals.exponent_overflow);
}

}  // namespace
}  // namespace mantissa::ops
