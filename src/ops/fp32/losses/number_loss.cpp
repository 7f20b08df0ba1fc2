// Errors of numbers, and cross-entropy against distributions, in fp32.
#include <algorithm>
#include <cmath>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/fp32/losses/loss_parts.h"
#include "ops/losses/loss_weight.h"
#include "ops/loss.h"

namespace mantissa::ops::fp32 {
namespace {

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

double penalty(const RegressionAttributes& attributes, double difference) {
  const double size = std::abs(difference), delta = attributes.delta;
  switch (attributes.penalty) {
    case Penalty::kSquared:
      return difference * difference;
    case Penalty::kAbsolute:
      return size;
    case Penalty::kHuber:
      break;
  }
  return size <= delta ? size * size / 2 : delta * (size - delta / 2);
}

double penalty_slope(const RegressionAttributes& attributes, double difference) {
  switch (attributes.penalty) {
    case Penalty::kSquared:
      return 2 * difference;
    case Penalty::kAbsolute:
      return difference > 0 ? 1 : difference < 0 ? -1 : difference;
    case Penalty::kHuber:
      break;
  }
  return std::clamp(difference, -attributes.delta, attributes.delta);
}

void regression_error(const OpContext& c) {
  const auto& attributes = c.attributes<RegressionAttributes>();
  const int64_t outputs = c.inputs[0].shape.last();
  const kernels::RowWeights weights = row_weights(c);
  count_rows(weights, c.inputs[0].shape[0], *c.step.loss);
  for_differences(c, [&](int64_t n, const auto& difference) {
    double sum = 0;
    for (int64_t k = 0; k < outputs; ++k) sum += penalty(attributes, difference(k));
    add_loss(sum / static_cast<double>(outputs) * weight_of(weights, n) * 0x1p24, *c.step.loss,
             c.step.totals->exponent_overflow);
  });
}

void regression_error_backward(const OpContext& c) {
  const double factor = loss_weight(*c.node.attributes);
  const auto& attributes = c.attributes<RegressionAttributes>();
  const int64_t outputs = c.inputs[0].shape.last();
  const kernels::RowWeights weights = row_weights(c);
  for_differences(c, [&](int64_t n, const auto& difference) {
    float* const gradient = c.grad_inputs[0].as<float>() + n * outputs;
    const double weight = weight_of(weights, n) * factor;
    for (int64_t k = 0; k < outputs; ++k) {
      gradient[k] = static_cast<float>(penalty_slope(attributes, difference(k)) /
                                       static_cast<double>(outputs) * weight);
    }
  });
}

// A row of logits, its distribution, and with kHasLabels its label.
template <bool kHasLabels>
struct SoftRow {
  const float* logits;
  const int16_t* targets;
  int32_t label;
  double unit;  // of targets
  int64_t classes;

  SoftRow(const OpContext& c, int64_t n)
      : logits(c.inputs[0].as<float>() + n * c.inputs[0].shape.last()),
        targets(c.inputs[kHasLabels ? 2 : 1].as<int16_t>() + n * c.inputs[0].shape.last()),
        label(kHasLabels ? c.inputs[1].as<int32_t>()[n] : 0),
        unit(std::ldexp(1.0, *c.inputs[kHasLabels ? 2 : 1].exponent)),
        classes(c.inputs[0].shape.last()) {}
};

// The temperature, and the shares of the teacher and of labels in the loss.
struct SoftShares {
  double temperature = 1, teacher = 1, labels = 0;
};

template <bool kHasLabels>
SoftShares shares_of(const OpContext& c) {
  if constexpr (!kHasLabels) return {};
  const auto& attributes = c.attributes<SoftLossAttributes>();
  return {attributes.temperature, attributes.teacher_weight, 1 - attributes.teacher_weight};
}

template <bool kHasLabels>
double soft_row_loss(const SoftRow<kHasLabels>& row, const SoftShares& shares) {
  const double t = shares.temperature;
  const RowSoftmax soft = row_softmax(row.logits, row.classes, t);
  double lost = 0;
  for (int64_t k = 0; k < row.classes; ++k) {
    if (row.targets[k] == 0) continue;
    lost += row.targets[k] * row.unit *
            (std::log(soft.sum) - (row.logits[k] - soft.largest) / t);
  }
  lost *= shares.teacher * t * t;
  if (shares.labels == 0) return lost;
  const RowSoftmax hard = row_softmax(row.logits, row.classes, 1);
  return lost +
         shares.labels * (std::log(hard.sum) - (row.logits[row.label] - hard.largest));
}

template <bool kHasLabels>
void soft_cross_entropy(const OpContext& c) {
  const kernels::RowWeights weights = row_weights(c, kHasLabels ? 3 : 2);
  const SoftShares shares = shares_of<kHasLabels>(c);
  const int64_t rows = c.inputs[0].shape.count() / c.inputs[0].shape.last();
  count_rows(weights, rows, *c.step.loss);
  for (int64_t n = 0; n < rows; ++n) {
    const double weight = weight_of(weights, n);
    if (weight == 0) continue;
    const SoftRow<kHasLabels> row(c, n);
    const double loss_q24 = soft_row_loss(row, shares) / kLn2 * weight * 0x1p24;
    if (!add_loss(loss_q24, *c.step.loss, c.step.totals->exponent_overflow)) continue;
    const int64_t likeliest = std::max_element(row.targets, row.targets + row.classes) - row.targets;
    const int64_t guess = std::max_element(row.logits, row.logits + row.classes) - row.logits;
    c.step.loss->correct += guess == (kHasLabels ? row.label : likeliest);
  }
}

template <bool kHasLabels>
void soft_cross_entropy_backward(const OpContext& c) {
  const kernels::RowWeights weights = row_weights(c, kHasLabels ? 3 : 2);
  const SoftShares shares = shares_of<kHasLabels>(c);
  const int64_t classes = c.inputs[0].shape.last(), rows = c.inputs[0].shape.count() / classes;
  for (int64_t n = 0; n < rows; ++n) {
    const SoftRow<kHasLabels> row(c, n);
    const RowSoftmax soft = row_softmax(row.logits, classes, shares.temperature);
    const RowSoftmax hard = row_softmax(row.logits, classes, 1);
    const double weight = weight_of(weights, n);
    double all = 0;
    for (int64_t k = 0; k < classes; ++k) all += row.targets[k] * row.unit;
    for (int64_t k = 0; k < classes; ++k) {
      const double below = row.logits[k] - soft.largest;
      const double p = std::exp(below / shares.temperature) / soft.sum;
      double gradient = (p * all - row.targets[k] * row.unit) * shares.teacher * shares.temperature;
      if (kHasLabels) {
        gradient += shares.labels * (std::exp(below) / hard.sum - (k == row.label ? 1 : 0));
      }
      c.grad_inputs[0].as<float>()[n * classes + k] =
          weight == 0 ? 0.0F : static_cast<float>(gradient * weight);
    }
  }
}

}  // namespace

void write_shares(const float* logits, int64_t classes, double temperature, int bits,
                  int16_t* shares) {
  const RowSoftmax row = row_softmax(logits, classes, temperature);
  for (int64_t k = 0; k < classes; ++k) {
    const double share = std::exp((logits[k] - row.largest) / temperature) / row.sum;
    shares[k] = static_cast<int16_t>(std::lrint(std::ldexp(share, bits)));
  }
}

const OpRows kRegressionError = {.forward = {.run = regression_error},
                                 .grad_input = {.run = regression_error_backward},
                                 .kernel = loops_name};
const OpRows kSoftCrossEntropy = {.forward = {.run = soft_cross_entropy<false>},
                                  .grad_input = {.run = soft_cross_entropy_backward<false>},
                                  .kernel = loops_name};
const OpRows kDistilledCrossEntropy = {.forward = {.run = soft_cross_entropy<true>},
                                       .grad_input = {.run = soft_cross_entropy_backward<true>},
                                       .kernel = loops_name};

}  // namespace mantissa::ops::fp32
