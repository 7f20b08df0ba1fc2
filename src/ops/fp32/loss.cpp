// Losses in fp32; sums over rows and their logarithms in double.
#include "ops/loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "kernels/softmax/softmax.h"
#include "ops/attributes.h"
#include "ops/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

constexpr double kLn2 = 0.69314718055994530942;

struct Row {
  const float* logits;
  int64_t classes;
  int64_t label;
  double weight;
};

kernels::RowWeights row_weights(const OpContext& c) {
  const bool has_labels = c.inputs[1].type == DataType::kInt32;
  return {c.inputs.size() > 2 ? c.inputs[2].as<int16_t>() : nullptr,
          has_labels ? c.inputs[1].as<int32_t>() : nullptr};
}

double weight_of(const kernels::RowWeights& weights, int64_t n) {
  return std::ldexp(static_cast<double>(weights.factor(n)), -weights.bits());
}

// Calls visit(row, n, part) for each row of logits, on several threads: a part's rows on one.
template <typename Visit>
int64_t for_rows(const OpContext& c, Visit&& visit) {
  const int64_t classes = c.inputs[0].shape.last(), rows = c.inputs[0].shape.count() / classes;
  const kernels::RowWeights weights = row_weights(c);
  return kernels::parallel_ranges(*c.kernel.pool, rows, divide_up(kFloatsPerThread, classes),
                                  [&](int64_t begin, int64_t end, int64_t part) {
                                    for (int64_t n = begin; n < end; ++n) {
                                      visit(
                                          Row{c.inputs[0].as<float>() + n * classes, classes,
                                              c.inputs[1].as<int32_t>()[n], weight_of(weights, n)},
                                          n, part);
                                    }
                                  });
}

// Adds a row's loss, unless it is not finite: then the step fails.
bool add_loss(double loss_q24, LossTotals& totals, bool& overflow) {
  if (!(std::abs(loss_q24) < 0x1p50)) {
    overflow = true;
    return false;
  }
  totals.loss_q24 += std::llrint(loss_q24);
  return true;
}

// Whether the label is the first of the largest logits.
bool is_hit(const Row& row, float largest) {
  return row.logits[row.label] == largest &&
         std::find(row.logits, row.logits + row.label, largest) == row.logits + row.label;
}

// Counts losses (in units of 2^-24 of loss_q24's) and hits as the integer ops do. loss_of(row)
// gives a row's loss and its largest logit. Sums of whole numbers do not depend on threads.
template <typename LossOf>
void count_losses(const OpContext& c, LossOf&& loss_of) {
  count_rows(row_weights(c), c.inputs[0].shape.count() / c.inputs[0].shape.last(), *c.step.loss);
  std::array<LossTotals, kernels::kMaximumParts> totals{};
  std::array<bool, kernels::kMaximumParts> overflow{};
  const int64_t parts = for_rows(c, [&](const Row& row, int64_t, int64_t part) {
    if (row.weight == 0) return;
    const auto [loss, largest] = loss_of(row);
    if (!add_loss(loss * row.weight * 0x1p24, totals[part], overflow[part])) return;
    totals[part].correct += is_hit(row, largest);
  });
  for (int64_t part = 0; part < parts; ++part) {
    *c.step.loss += totals[part];
    c.step.totals->exponent_overflow |= overflow[part];
  }
}

// gradient_of(row, gradient) writes a row's gradient; a row without weight has the gradient zero.
template <typename GradientOf>
void write_gradients(const OpContext& c, GradientOf&& gradient_of) {
  for_rows(c, [&](const Row& row, int64_t n, int64_t) {
    float* const gradient = c.grad_inputs[0].as<float>() + n * row.classes;
    if (row.weight == 0) {
      std::fill_n(gradient, row.classes, 0.0F);
    } else {
      gradient_of(row, gradient);
    }
  });
}

double smoothing(const OpContext& c) {
  return static_cast<double>(c.attributes<LossAttributes>().smoothing_q16) / kSmoothingOne;
}

// The loss in bits, as loss_q24 counts it. The target of a class is the label's share, and with
// smoothing an equal share for all.
void cross_entropy(const OpContext& c) {
  const double smoothed = smoothing(c);
  count_losses(c, [&](const Row& row) {
    const kernels::LogitSums sums = c.kernel.table->floats->logit_sums(row.logits, row.classes);
    const double expected = (1 - smoothed) * row.logits[row.label] +
                            smoothed / static_cast<double>(row.classes) * sums.sum;
    const double log = sums.largest + std::log(sums.exponentials);
    return std::pair((log - expected) / kLn2, sums.largest);
  });
}

// The gradient of the sum over examples.
void cross_entropy_backward(const OpContext& c) {
  const double smoothed = smoothing(c);
  write_gradients(c, [&](const Row& row, float* gradient) {
    const kernels::LogitSums sums = c.kernel.table->floats->logit_sums(row.logits, row.classes);
    const double others = smoothed / static_cast<double>(row.classes);
    c.kernel.table->floats->softmax_gradient(row.logits, row.classes,
                                             {.largest = sums.largest,
                                              .inverse = static_cast<float>(1 / sums.exponentials),
                                              .target = static_cast<float>(others),
                                              .weight = static_cast<float>(row.weight)},
                                             gradient);
    const double probability =
        std::exp(double{row.logits[row.label]} - sums.largest) / sums.exponentials;
    const double error = probability - others - (1 - smoothed);
    gradient[row.label] = static_cast<float>(error * row.weight);
  });
}

kernels::SigmoidTargets sigmoid_targets(const OpContext& c) {
  const Tensor& labels = c.inputs[1];
  return {labels.as<int32_t>(), c.inputs[0].shape.last(),
          labels.shape.rank == c.inputs[0].shape.rank};
}

kernels::RowWeights sigmoid_weights(const OpContext& c) {
  kernels::RowWeights weights = row_weights(c);
  if (sigmoid_targets(c).by_output) weights.labels = nullptr;
  return weights;
}

// In nats.
double sigmoid_loss(double z, int32_t target) {
  return std::max(z, 0.0) - target * z + std::log1p(std::exp(-std::abs(z)));
}

// Logits count one by one, if their targets are known.
void sigmoid_cross_entropy(const OpContext& c) {
  const kernels::SigmoidTargets targets = sigmoid_targets(c);
  const kernels::RowWeights weights = sigmoid_weights(c);
  const int64_t rows = c.inputs[0].shape.count() / targets.outputs;
  count_rows(weights, rows, *c.step.loss);
  for (int64_t n = 0; n < rows; ++n) {
    const double weight = weight_of(weights, n);
    if (weight == 0) continue;
    double lost = 0;
    int64_t known = 0, right = 0;
    for (int64_t k = 0; k < targets.outputs; ++k) {
      const int32_t target = targets.at(n, k);
      if (target < 0) continue;
      const double z = c.inputs[0].as<float>()[n * targets.outputs + k];
      lost += sigmoid_loss(z, target);
      ++known;
      right += (z > 0) == (target == 1);
    }
    const double loss_q24 = lost / kLn2 * weight * 0x1p24;
    if (!add_loss(loss_q24, *c.step.loss, c.step.totals->exponent_overflow)) continue;
    c.step.loss->correct += known > 0 && right == known;
  }
}

void sigmoid_cross_entropy_backward(const OpContext& c) {
  const kernels::SigmoidTargets targets = sigmoid_targets(c);
  const kernels::RowWeights weights = sigmoid_weights(c);
  const auto* const logits = c.inputs[0].as<float>();
  auto* const gradient = c.grad_inputs[0].as<float>();
  for (int64_t i = 0; i < c.inputs[0].shape.count(); ++i) {
    const int64_t n = i / targets.outputs;
    const int32_t target = targets.at(n, i % targets.outputs);
    const double weight = target < 0 ? 0 : weight_of(weights, n);
    const double error = 1 / (1 + std::exp(-double{logits[i]})) - target;
    gradient[i] = weight == 0 ? 0.0F : static_cast<float>(error * weight);
  }
}

// Calls visit(n, differences of results and targets) for each row.
template <typename Visit>
void for_differences(const OpContext& c, Visit&& visit) {
  const int64_t outputs = c.inputs[0].shape.last();
  const double unit = std::ldexp(1.0, *c.inputs[1].exponent);
  for (int64_t n = 0; n < c.inputs[0].shape[0]; ++n) {
    const float* results = c.inputs[0].as<float>() + n * outputs;
    const int16_t* targets = c.inputs[1].as<int16_t>() + n * outputs;
    visit(n, [=](int64_t k) { return results[k] - targets[k] * unit; });
  }
}

void regression_error(const OpContext& c) {
  const int64_t outputs = c.inputs[0].shape.last();
  const kernels::RowWeights weights = row_weights(c);
  count_rows(weights, c.inputs[0].shape[0], *c.step.loss);
  for_differences(c, [&](int64_t n, const auto& difference) {
    double sum = 0;
    for (int64_t k = 0; k < outputs; ++k) sum += difference(k) * difference(k);
    add_loss(sum / static_cast<double>(outputs) * weight_of(weights, n) * 0x1p24, *c.step.loss,
             c.step.totals->exponent_overflow);
  });
}

void regression_error_backward(const OpContext& c) {
  const int64_t outputs = c.inputs[0].shape.last();
  const kernels::RowWeights weights = row_weights(c);
  for_differences(c, [&](int64_t n, const auto& difference) {
    float* const gradient = c.grad_inputs[0].as<float>() + n * outputs;
    const double weight = weight_of(weights, n);
    for (int64_t k = 0; k < outputs; ++k) {
      gradient[k] = static_cast<float>(2 * difference(k) / static_cast<double>(outputs) * weight);
    }
  });
}

double error(const Row& row, int64_t k) { return row.logits[k] - (k == row.label ? 1.0 : 0.0); }

void squared_error(const OpContext& c) {
  count_losses(c, [&](const Row& row) {
    double sum = 0;
    for (int64_t k = 0; k < row.classes; ++k) sum += error(row, k) * error(row, k);
    return std::pair(sum / static_cast<double>(row.classes),
                     *std::max_element(row.logits, row.logits + row.classes));
  });
}

void squared_error_backward(const OpContext& c) {
  write_gradients(c, [&](const Row& row, float* gradient) {
    for (int64_t k = 0; k < row.classes; ++k) {
      gradient[k] =
          static_cast<float>(2 * error(row, k) / static_cast<double>(row.classes) * row.weight);
    }
  });
}

// log of the sum of exp.
double log_sum(const float* logits, int64_t classes) {
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t k = 0; k < classes; ++k) sum += std::exp(logits[k] - largest);
  return largest + std::log(sum);
}

}  // namespace

void probabilities(const float* logits, int64_t rows, int64_t classes, double* probabilities) {
  for (int64_t n = 0; n < rows; ++n) {
    const double log = log_sum(logits + n * classes, classes);
    for (int64_t k = 0; k < classes; ++k) {
      probabilities[n * classes + k] = std::exp(logits[n * classes + k] - log);
    }
  }
}

const OpRows kSoftmaxCrossEntropy = {.forward = {.run = cross_entropy},
                                     .grad_input = {.run = cross_entropy_backward},
                                     .kernel = floats_name};
const OpRows kSigmoidCrossEntropy = {.forward = {.run = sigmoid_cross_entropy},
                                     .grad_input = {.run = sigmoid_cross_entropy_backward},
                                     .kernel = loops_name};
const OpRows kMeanSquaredError = {.forward = {.run = squared_error},
                                  .grad_input = {.run = squared_error_backward},
                                  .kernel = loops_name};
const OpRows kRegressionError = {.forward = {.run = regression_error},
                                 .grad_input = {.run = regression_error_backward},
                                 .kernel = loops_name};

}  // namespace mantissa::ops::fp32
