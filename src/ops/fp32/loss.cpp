// Losses in fp32; each row in double.
#include "ops/loss.h"

#include <algorithm>
#include <cmath>

#include "ops/fp32/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

constexpr double kLn2 = 0.69314718055994530942;

// log of the sum of exp.
double log_sum(const float* logits, int64_t classes) {
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t k = 0; k < classes; ++k) sum += std::exp(logits[k] - largest);
  return largest + std::log(sum);
}

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

// Calls visit(row, n) for each row of logits, on one thread: a batch is few rows.
template <typename Visit>
void for_rows(const OpContext& c, Visit&& visit) {
  const int64_t classes = c.inputs[0].shape.last();
  const kernels::RowWeights weights = row_weights(c);
  for (int64_t n = 0; n < c.inputs[0].shape.count() / classes; ++n) {
    visit(Row{c.inputs[0].as<float>() + n * classes, classes, c.inputs[1].as<int32_t>()[n],
              weight_of(weights, n)},
          n);
  }
}

// Adds a row's loss, unless it is not finite: then the step fails.
bool add_loss(const OpContext& c, double loss_q24) {
  if (!(std::abs(loss_q24) < 0x1p50)) {
    c.totals->exponent_overflow = true;
    return false;
  }
  c.loss->loss_q24 += std::llrint(loss_q24);
  return true;
}

// Counts losses (in units of 2^-24 of loss_q24's) and hits as the integer ops do.
template <typename LossOf>
void count_losses(const OpContext& c, LossOf&& loss_of) {
  count_rows(row_weights(c), c.inputs[0].shape.count() / c.inputs[0].shape.last(), *c.loss);
  for_rows(c, [&](const Row& row, int64_t) {
    if (row.weight == 0) return;
    if (!add_loss(c, loss_of(row) * row.weight * 0x1p24)) return;
    c.loss->correct +=
        std::max_element(row.logits, row.logits + row.classes) - row.logits == row.label;
  });
}

// grad[k] = gradient_of(row, k) for each row.
template <typename GradientOf>
void write_gradients(const OpContext& c, GradientOf&& gradient_of) {
  for_rows(c, [&](const Row& row, int64_t n) {
    gradient_of(row, c.grad_inputs[0].as<float>() + n * row.classes);
  });
}

double smoothing(const OpContext& c) {
  return static_cast<double>(c.attributes->whole("smoothing")) / kSmoothingOne;
}

// The target of a class: the label's share, and with smoothing an equal share for all.
double target(const Row& row, int64_t k, double smoothed) {
  return smoothed / static_cast<double>(row.classes) + (k == row.label ? 1 - smoothed : 0);
}

// In bits, as loss_q24 counts it.
void cross_entropy(const OpContext& c) {
  const double smoothed = smoothing(c);
  count_losses(c, [&](const Row& row) {
    const double log = log_sum(row.logits, row.classes);
    double loss = 0;
    for (int64_t k = 0; k < row.classes; ++k) {
      loss += target(row, k, smoothed) * (log - row.logits[k]);
    }
    return loss / kLn2;
  });
}

// The gradient of the sum over examples.
void cross_entropy_backward(const OpContext& c) {
  const double smoothed = smoothing(c);
  write_gradients(c, [&](const Row& row, float* gradient) {
    const double log = log_sum(row.logits, row.classes);
    for (int64_t k = 0; k < row.classes; ++k) {
      const double error = std::exp(row.logits[k] - log) - target(row, k, smoothed);
      gradient[k] = static_cast<float>(error * row.weight);
    }
  });
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
  count_rows(weights, c.inputs[0].shape[0], *c.loss);
  for_differences(c, [&](int64_t n, const auto& difference) {
    double sum = 0;
    for (int64_t k = 0; k < outputs; ++k) sum += difference(k) * difference(k);
    add_loss(c, sum / static_cast<double>(outputs) * weight_of(weights, n) * 0x1p24);
  });
}

void regression_error_backward(const OpContext& c) {
  const int64_t outputs = c.inputs[0].shape.last();
  const kernels::RowWeights weights = row_weights(c);
  for_differences(c, [&](int64_t n, const auto& difference) {
    float* const gradient = c.grad_inputs[0].as<float>() + n * outputs;
    const double weight = weight_of(weights, n);
    for (int64_t k = 0; k < outputs; ++k) {
      gradient[k] =
          static_cast<float>(2 * difference(k) / static_cast<double>(outputs) * weight);
    }
  });
}

double error(const Row& row, int64_t k) { return row.logits[k] - (k == row.label ? 1.0 : 0.0); }

void squared_error(const OpContext& c) {
  count_losses(c, [&](const Row& row) {
    double sum = 0;
    for (int64_t k = 0; k < row.classes; ++k) sum += error(row, k) * error(row, k);
    return sum / static_cast<double>(row.classes);
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

}  // namespace

void probabilities(const float* logits, int64_t rows, int64_t classes, double* probabilities) {
  for (int64_t n = 0; n < rows; ++n) {
    const double log = log_sum(logits + n * classes, classes);
    for (int64_t k = 0; k < classes; ++k) {
      probabilities[n * classes + k] = std::exp(logits[n * classes + k] - log);
    }
  }
}

const OpFunctions kSoftmaxCrossEntropy = {
    .forward = cross_entropy, .backward_input = cross_entropy_backward, .kernel = loops_name};
const OpFunctions kMeanSquaredError = {
    .forward = squared_error, .backward_input = squared_error_backward, .kernel = loops_name};
const OpFunctions kRegressionError = {
    .forward = regression_error, .backward_input = regression_error_backward, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
