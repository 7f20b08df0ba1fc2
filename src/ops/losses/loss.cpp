// Losses on wide logits: softmax with cross-entropy (and label smoothing), sigmoids with
// cross-entropy, mean squared error on one-hot targets and on targets that the batch brings. The
// gradient is the one of the sum over examples.
#include "ops/loss.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "kernels/kernel_table.h"
#include "kernels/softmax/softmax.h"
#include "numerics/exponential.h"
#include "numerics/nearest_fraction.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/losses/loss_rows.h"
#include "ops/losses/loss_weight.h"
#include "ops/losses/penalties.h"
#include "ops/losses/sigmoids.h"
#include "ops/losses/soft_targets.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa::ops {
namespace {

constexpr double kMostSmoothing = 1 - 1.0 / static_cast<double>(kSmoothingOne);

constexpr AttributeSpec kSmoothingSchema[] = {
    real<&LossAttributes::smoothing>("smoothing", 0, 0, kMostSmoothing),
    loss_weight_spec<LossAttributes>()};

void derive_smoothing(LossAttributes& attributes) {
  attributes.smoothing_q16 = nearest_whole(attributes.smoothing, kSmoothingOne);
}

constexpr AttributeSpec kSquareSchema[] = {loss_weight_spec<LossAttributes>()};

constexpr AttributeSpec kSigmoidSchema[] = {
    real<&SigmoidLossAttributes::smoothing>("smoothing", 0, 0, kMostSmoothing),
    real<&SigmoidLossAttributes::focal>("focal", 0, 0, kMostFocal),
    whole_list<&SigmoidLossAttributes::positive_weights>("positive_weights", 0, kMostRowWeight),
    flag<&SigmoidLossAttributes::ordinal>("ordinal", false),
    loss_weight_spec<SigmoidLossAttributes>()};

void derive_sigmoids(SigmoidLossAttributes& attributes) {
  attributes.smoothing_q16 = nearest_whole(attributes.smoothing, kSmoothingOne);
  attributes.focal_q16 = nearest_whole(attributes.focal, kOneQ16);
}

constexpr AttributeSpec kPenaltySchema[] = {
    text<&RegressionAttributes::penalty>("penalty", "squared", "squared absolute huber"),
    real<&RegressionAttributes::delta>("delta", 1, kLeastDelta, kMostDelta),
    loss_weight_spec<RegressionAttributes>()};

void derive_penalty(RegressionAttributes& attributes) {
  attributes.delta_q24 = nearest_whole(attributes.delta, int64_t{1} << 24);
}

constexpr AttributeSpec kDistilledSchema[] = {
    real<&SoftLossAttributes::temperature>("temperature", 1, 1, kMostTemperature),
    real<&SoftLossAttributes::teacher_weight>("teacher_weight", 0.5, 0, 1)};

Prepared prepare(const OpContext& c) {
  return std::make_shared<const int64_t>(c.attributes<LossAttributes>().smoothing_q16);
}

constexpr Element kInputElements[] = {Element::kMantissa, Element::kIndex, Element::kNumber};

// Logits, labels or targets, and perhaps weights.
bool is_count(size_t inputs) { return inputs == 2 || inputs == 3; }

template <int64_t kMostClasses>
Result<std::vector<ValueType>> infer(const Attributes&, std::span<const Shape> inputs) {
  const bool fits = is_count(inputs.size()) && inputs[0].rank >= 1 &&
                    inputs[1].rank == inputs[0].rank - 1 &&
                    std::equal(inputs[1].dims.begin(), inputs[1].dims.begin() + inputs[1].rank,
                               inputs[0].dims.begin());
  if (!fits || (inputs.size() == 3 && inputs[2] != inputs[1])) {
    return invalid_input(
        "wants logits [..., classes], a label for each row of them, and perhaps a weight for each");
  }
  if (inputs[0].last() > kMostClasses) {
    return invalid_input("wants at most " + std::to_string(kMostClasses) + " classes");
  }
  return std::vector<ValueType>{{Shape{}, Element::kReal}};
}

kernels::SquaredError squared_error_arguments(const OpContext& c, int64_t row) {
  return {.logits = c.inputs[0].as<int32_t>(),
          .labels = c.inputs[1].as<int32_t>(),
          .exponent = c.inputs[0].row_exponent(row),
          .classes = c.inputs[0].shape.last(),
          .weights = row_weights_at(c, 2)};
}

kernels::SigmoidCrossEntropy sigmoid_arguments(const OpContext& c, int64_t row) {
  return {.logits = c.inputs[0].as<int32_t>(),
          .targets = sigmoid_targets_of(c),
          .exponent = c.inputs[0].row_exponent(row),
          .weights = row_weights_at(c, 2)};
}

// Sigmoids, which the family of softmax computes, too.
struct BySigmoid {
  static auto arguments(const OpContext& c, int64_t row) { return sigmoid_arguments(c, row); }
  static kernels::LossSums loss(const OpContext& c, int64_t first, int64_t next) {
    return c.kernel.table->softmax->sigmoid_loss(sigmoid_arguments(c, first), first, next);
  }
  static kernels::WideStatistics gradient(const OpContext& c, int shift, kernels::MantissaSpan grad,
                                          int64_t first, int64_t next,
                                          kernels::WideCounts* counts) {
    auto args = sigmoid_arguments(c, first);
    args.counts = counts;
    return c.kernel.table->softmax->sigmoid_gradient(args, shift, grad, first, next);
  }
  static constexpr auto kKernel = kernel_name<&kernels::KernelTable::softmax>;
};

constexpr Element kTargetElements[] = {Element::kMantissa, Element::kNumber, Element::kNumber};
constexpr Element kDistilledElements[] = {Element::kMantissa, Element::kIndex, Element::kNumber,
                                          Element::kNumber};

Result<std::vector<ValueType>> infer_regression(const Attributes&, std::span<const Shape> inputs) {
  if (!is_count(inputs.size()) || inputs[0].rank != 1 || inputs[1] != inputs[0] ||
      (inputs.size() == 3 && inputs[2] != Shape{})) {
    return invalid_input("wants results [outputs], as many targets, and perhaps a weight");
  }
  if (inputs[0][0] > kernels::kMaximumOutputs) {
    return invalid_input("wants at most " + std::to_string(kernels::kMaximumOutputs) + " outputs");
  }
  return std::vector<ValueType>{{Shape{}, Element::kReal}};
}

// inputs: results int32 [N, outputs], targets int16 [N, outputs].
kernels::SquaredError regression_arguments(const OpContext& c, int64_t row) {
  return {.logits = c.inputs[0].as<int32_t>(),
          .exponent = c.inputs[0].row_exponent(row),
          .classes = c.inputs[0].shape.last(),
          .targets = c.inputs[1].as<int16_t>(),
          .target_exponent = *c.inputs[1].exponent,
          .weights = row_weights_at(c, 2)};
}

// Sigmoids: by the kernels if they can.
void sigmoid_losses(const OpContext& c) {
  const bool is_plain = c.attributes<SigmoidLossAttributes>().is_plain();
  is_plain ? loss_forward<BySigmoid>(c) : weighed_sigmoids(c);
}
void sigmoid_losses_backward(const OpContext& c) {
  const bool is_plain = c.attributes<SigmoidLossAttributes>().is_plain();
  is_plain ? weighted_loss_backward<BySigmoid, kernels::kSoftmaxGradientExponent>(c)
           : weighed_sigmoids_backward(c);
}

using BySquaredNumbers = ByFamily<&kernels::KernelTable::squared_error, regression_arguments>;

// Numbers: the kernels compute the square.
void number_errors(const OpContext& c) {
  const bool is_square = c.attributes<RegressionAttributes>().penalty == Penalty::kSquared;
  is_square ? loss_forward<BySquaredNumbers>(c) : penalty_loss(c);
}
void number_errors_backward(const OpContext& c) {
  const bool is_square = c.attributes<RegressionAttributes>().penalty == Penalty::kSquared;
  is_square ? weighted_loss_backward<BySquaredNumbers, kernels::kSquaredErrorGradientExponent>(c)
            : penalty_backward(c);
}

// The shapes of a distribution for each row of logits.
Result<std::vector<ValueType>> infer_soft(const Attributes&, std::span<const Shape> inputs) {
  const bool fits = is_count(inputs.size()) && inputs[0].rank >= 1 && inputs[1] == inputs[0] &&
                    (inputs.size() == 2 || inputs[2] == rows_shape(inputs[0]));
  if (!fits) {
    return invalid_input(
        "wants logits [..., classes], as many targets, and perhaps a weight for each row");
  }
  return std::vector<ValueType>{{Shape{}, Element::kReal}};
}

// The same with labels before it.
Result<std::vector<ValueType>> infer_distilled(const Attributes& attributes,
                                               std::span<const Shape> inputs) {
  const bool has_labels = inputs.size() >= 3 && inputs[0].rank >= 1 && inputs[1] == rows_shape(inputs[0]);
  if (!has_labels) {
    return invalid_input(
        "wants logits [..., classes], a label for each row, as many targets as logits, and perhaps "
        "a weight for each row");
  }
  std::vector<Shape> others(inputs.begin(), inputs.end());
  others.erase(others.begin() + 1);
  return infer_soft(attributes, others);
}

// Labels are the outputs that are 1, one for each row of logits, or a label for each logit.
Result<std::vector<ValueType>> infer_sigmoid(const Attributes& attributes,
                                             std::span<const Shape> inputs) {
  const bool by_output = is_count(inputs.size()) && inputs[0].rank >= 1 && inputs[1] == inputs[0];
  std::vector<Shape> by_row(inputs.begin(), inputs.end());
  if (by_output) by_row[1] = labels_shape(inputs[0], false);
  const auto& own = attributes.as<SigmoidLossAttributes>();
  auto outputs = infer<kernels::kMaximumClasses>(attributes, by_row);
  if (outputs.ok() && own.ordinal && by_output) {
    return invalid_input("ordinal: wants one label for each row of logits");
  }
  const auto weights = std::ssize(own.positive_weights);
  if (outputs.ok() && weights > 1 && weights != inputs[0].last()) {
    return invalid_input("positive_weights: there are " + std::to_string(weights) +
                         " of them and " + std::to_string(inputs[0].last()) +
                         " outputs; one is for all");
  }
  if (outputs.ok()) return outputs;
  return invalid_input(
      "wants logits [..., outputs], a label for each row of them or for each of them, and perhaps "
      "a weight for each row");
}

// A row for one family of kernels.
template <typename By, int kWideExponent, int64_t kMostClasses>
constexpr Op row(const char* name, AttributeSchema schema, double unit, const OpRows* fp32) {
  return {.name = name,
          .attributes = schema,
          .infer_outputs = infer<kMostClasses>,
          .input_elements = kInputElements,
          .integer = {.memory = loss_weight_memory,
                      .forward = {.run = loss_forward<By>},
                      .grad_input = {.run = weighted_loss_backward<By, kWideExponent>},
                      .kernel = By::kKernel},
          .emit_gradient = emit_gradient_by_inputs,
          .loss_unit = unit,
          .fp32 = fp32};
}

// Loops of the operator itself, without kernels.
const char* reference_name(const OpContext&) { return "reference"; }

constexpr double kNats = nats_from_q24(1), kSquares = 0x1p-24;

// Classes of a language model: sums of powers in Q30 stay within 2^48.
constexpr int64_t kMostTokens = int64_t{1} << 18;

template <auto kArguments>
using BySquaredError = ByFamily<&kernels::KernelTable::squared_error, kArguments>;

}  // namespace

const Op kSoftmaxCrossEntropy = [] {
  Op op = row<BySoftmax, kernels::kSoftmaxGradientExponent, kMostTokens>(
      "softmax_cross_entropy", schema<LossAttributes, derive_smoothing>(kSmoothingSchema), kNats,
      &fp32::kSoftmaxCrossEntropy);
  op.integer.forward.prepare = op.integer.grad_input.prepare = prepare;
  return op;
}();
const Op kSigmoidCrossEntropy = [] {
  Op op = row<BySigmoid, kernels::kSoftmaxGradientExponent, kernels::kMaximumClasses>(
      "sigmoid_cross_entropy", schema<SigmoidLossAttributes, derive_sigmoids>(kSigmoidSchema),
      kNats, &fp32::kSigmoidCrossEntropy);
  op.infer_outputs = infer_sigmoid;
  op.integer.forward.run = sigmoid_losses;
  op.integer.grad_input.run = sigmoid_losses_backward;
  return op;
}();
const Op kMeanSquaredError =
    row<BySquaredError<squared_error_arguments>, kernels::kSquaredErrorGradientExponent,
        kernels::kMaximumOutputs>("mean_squared_error", schema<LossAttributes>(kSquareSchema),
                                  kSquares, &fp32::kMeanSquaredError);
const Op kRegressionError = [] {
  Op op = row<BySquaredNumbers, kernels::kSquaredErrorGradientExponent, kernels::kMaximumOutputs>(
      "regression_error", schema<RegressionAttributes, derive_penalty>(kPenaltySchema), kSquares,
      &fp32::kRegressionError);
  op.infer_outputs = infer_regression;
  op.input_elements = kTargetElements;
  op.integer.forward.run = number_errors;
  op.integer.grad_input.run = number_errors_backward;
  return op;
}();
const Op kSoftCrossEntropy = {.name = "soft_cross_entropy",
                              .infer_outputs = infer_soft,
                              .input_elements = kTargetElements,
                              .integer = {.forward = {.run = soft_loss},
                                          .grad_input = {.run = soft_backward},
                                          .kernel = reference_name},
                              .emit_gradient = emit_gradient_by_inputs,
                              .loss_unit = kNats,
                              .fp32 = &fp32::kSoftCrossEntropy};
const Op kDistilledCrossEntropy = {
    .name = "distilled_cross_entropy",
    .attributes = schema<SoftLossAttributes, derive_distilled>(kDistilledSchema),
    .infer_outputs = infer_distilled,
    .input_elements = kDistilledElements,
    .integer = {.forward = {.run = distilled_loss},
                .grad_input = {.run = distilled_backward},
                .kernel = reference_name},
    .emit_gradient = emit_gradient_by_inputs,
    .loss_unit = kNats,
    .fp32 = &fp32::kDistilledCrossEntropy};

}  // namespace mantissa::ops
