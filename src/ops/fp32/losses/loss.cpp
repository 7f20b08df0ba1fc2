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
#include "ops/fp32/losses/loss_parts.h"
#include "ops/losses/loss_weight.h"

namespace mantissa::ops::fp32 {
namespace {

struct Row {
  const float* logits;
  int64_t classes;
  int64_t label;
  double weight;
};

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
// The weights of rows are multiplied by the loss's factor.
template <typename GradientOf>
void write_gradients(const OpContext& c, GradientOf&& gradient_of) {
  const double factor = loss_weight(*c.node.attributes);
  for_rows(c, [&](Row row, int64_t n, int64_t) {
    row.weight *= factor;
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
const OpRows kMeanSquaredError = {.forward = {.run = squared_error},
                                  .grad_input = {.run = squared_error_backward},
                                  .kernel = loops_name};

}  // namespace mantissa::ops::fp32
