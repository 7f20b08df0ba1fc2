// Softmax and cross-entropy in fp32; each row in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/fp32/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

// log of the sum of exp.
double log_sum(const float* logits, int64_t classes) {
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t k = 0; k < classes; ++k) sum += std::exp(logits[k] - largest);
  return largest + std::log(sum);
}

// Loss and hits are counted as the integer op counts them. On one thread: a batch is few rows.
void forward(const OpContext& c) {
  constexpr double kQ24PerNat = 0x1p24 / 0.69314718055994530942;
  const int64_t rows = c.inputs[0].shape[0], classes = c.inputs[0].shape.last();
  const auto* labels = c.inputs[1].as<uint8_t>();
  for (int64_t n = 0; n < rows; ++n) {
    const float* logits = c.inputs[0].as<float>() + n * classes;
    const double loss = (log_sum(logits, classes) - logits[labels[n]]) * kQ24PerNat;
    if (!(std::abs(loss) < 0x1p53)) {
      c.totals->exponent_overflow = true;
      return;
    }
    c.totals->loss_q24 += std::llrint(loss);
    c.totals->correct += std::max_element(logits, logits + classes) - logits == labels[n];
  }
}

// Of the sum over examples.
void backward_input(const OpContext& c) {
  const int64_t classes = c.inputs[0].shape.last();
  const auto* labels = c.inputs[1].as<uint8_t>();
  for (int64_t n = 0; n < c.inputs[0].shape[0]; ++n) {
    const float* logits = c.inputs[0].as<float>() + n * classes;
    float* gradient = c.grad_inputs[0].as<float>() + n * classes;
    const double log = log_sum(logits, classes);
    for (int64_t k = 0; k < classes; ++k) {
      gradient[k] = static_cast<float>(std::exp(logits[k] - log) - (k == labels[n] ? 1 : 0));
    }
  }
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
    .forward = forward, .backward_input = backward_input, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
