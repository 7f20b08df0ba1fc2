// Cross-entropy of sigmoids in fp32, with the forms of ops/losses/sigmoids.h.
#include <algorithm>
#include <cmath>

#include "ops/fp32.h"
#include "ops/fp32/losses/loss_parts.h"
#include "ops/loss.h"
#include "ops/losses/loss_weight.h"
#include "ops/losses/sigmoids.h"

namespace mantissa::ops::fp32 {
namespace {

// The loss of one logit, and its slope.
struct SigmoidLoss {
  double loss = 0, slope = 0;  // in nats
};

// log(1 + e^x).
double log_one_plus_exp(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

// (1 - p)^focal * -log p of the sigmoid p of z, and the slope with its sign turned.
SigmoidLoss focal_term(double z, double focal) {
  const double lost = log_one_plus_exp(-z), missed = std::exp(-log_one_plus_exp(z));
  if (focal == 0) return {lost, missed};
  const double factor = std::pow(missed, focal);
  return {factor * lost, factor * (missed + focal * (1 - missed) * lost)};
}

SigmoidLoss sigmoid_loss(const SigmoidLossAttributes& attributes, double z, int32_t target,
                         int64_t output) {
  const double smoothing = std::ldexp(static_cast<double>(attributes.smoothing_q16), -17);
  const double share = target == 1 ? 1 - smoothing : smoothing;
  const double focal = std::ldexp(static_cast<double>(attributes.focal_q16), -16);
  const WholeList& weights = attributes.positive_weights;
  const double weight =
      weights.empty()
          ? 1
          : std::ldexp(static_cast<double>(
                           weights[weights.size() == 1 ? 0 : static_cast<size_t>(output)]),
                       -kernels::kRowWeightBits);
  const SigmoidLoss one = focal_term(z, focal), zero = focal_term(-z, focal);
  // A share of 0 of a loss that is not finite is none.
  const auto part = [](double of, double number) { return of == 0 ? 0 : of * number; };
  return {part(weight * share, one.loss) + part(1 - share, zero.loss),
          part(1 - share, zero.slope) - part(weight * share, one.slope)};
}

kernels::RowWeights sigmoid_weights(const OpContext& c) {
  kernels::RowWeights weights = row_weights(c);
  if (sigmoid_targets_of(c).by_output) weights.labels = nullptr;
  return weights;
}

// Logits count one by one, if their targets are known.
void sigmoid_cross_entropy(const OpContext& c) {
  const auto& attributes = c.attributes<SigmoidLossAttributes>();
  const kernels::SigmoidTargets targets = sigmoid_targets_of(c);
  const kernels::RowWeights weights = sigmoid_weights(c);
  const int64_t rows = c.inputs[0].shape.count() / targets.outputs;
  count_rows(weights, rows, *c.step.loss);
  for (int64_t n = 0; n < rows; ++n) {
    const double weight = weight_of(weights, n);
    if (weight == 0) continue;
    double lost = 0;
    int64_t known = 0, right = 0;
    for (int64_t k = 0; k < targets.outputs; ++k) {
      const int32_t target = sigmoid_target(attributes, targets, n, k);
      if (target < 0) continue;
      const double z = c.inputs[0].as<float>()[n * targets.outputs + k];
      lost += sigmoid_loss(attributes, z, target, k).loss;
      ++known;
      right += (z > 0) == (target == 1);
    }
    const double loss_q24 = lost / kLn2 * weight * 0x1p24;
    if (!add_loss(loss_q24, *c.step.loss, c.step.totals->exponent_overflow)) continue;
    c.step.loss->correct += known > 0 && right == known;
  }
}

void sigmoid_cross_entropy_backward(const OpContext& c) {
  const double factor = loss_weight(*c.node.attributes);
  const auto& attributes = c.attributes<SigmoidLossAttributes>();
  const kernels::SigmoidTargets targets = sigmoid_targets_of(c);
  const kernels::RowWeights weights = sigmoid_weights(c);
  const auto* const logits = c.inputs[0].as<float>();
  auto* const gradient = c.grad_inputs[0].as<float>();
  for (int64_t i = 0; i < c.inputs[0].shape.count(); ++i) {
    const int64_t n = i / targets.outputs, k = i % targets.outputs;
    const int32_t target = sigmoid_target(attributes, targets, n, k);
    const double weight = target < 0 ? 0 : weight_of(weights, n) * factor;
    gradient[i] = weight == 0 ? 0.0F
                              : static_cast<float>(
                                    sigmoid_loss(attributes, logits[i], target, k).slope * weight);
  }
}

}  // namespace

const OpRows kSigmoidCrossEntropy = {.forward = {.run = sigmoid_cross_entropy},
                                     .grad_input = {.run = sigmoid_cross_entropy_backward},
                                     .kernel = loops_name};

}  // namespace mantissa::ops::fp32
