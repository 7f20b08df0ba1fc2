// Losses on wide logits: softmax with cross-entropy (and label smoothing), sigmoids with
// cross-entropy, mean squared error on one-hot targets and on targets that the batch brings. The
// gradient is the one of the sum over examples.
#include "ops/loss.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "kernels/softmax/softmax.h"
#include "numerics/exponential.h"
#include "numerics/nearest_fraction.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "tensor/table_numbers.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kRowsPerThread = 32;  // rows

constexpr AttributeSpec kSmoothingSchema[] = {real<&LossAttributes::smoothing>(
    "smoothing", 0, 0, 1 - 1.0 / static_cast<double>(kSmoothingOne))};

void derive(LossAttributes& attributes) {
  attributes.smoothing_q16 = nearest_whole(attributes.smoothing, kSmoothingOne);
}

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

const int16_t* weights_of(const OpContext& c) {
  return c.inputs.size() > 2 ? c.inputs[2].as<int16_t>() : nullptr;
}

// inputs: logits int32 [N, ..., classes], labels int32 [N, ...], perhaps weights int16 [N, ...].
// `row` is one of the rows that they are for.
kernels::SoftmaxCrossEntropy softmax_arguments(const OpContext& c, int64_t row) {
  return {c.inputs[0].as<int32_t>(),
          c.inputs[1].as<int32_t>(),
          c.inputs[0].row_exponent(row),
          c.inputs[0].shape.last(),
          *static_cast<const int64_t*>(c.kernel.prepared),
          weights_of(c)};
}

kernels::SquaredError squared_error_arguments(const OpContext& c, int64_t row) {
  return {.logits = c.inputs[0].as<int32_t>(),
          .labels = c.inputs[1].as<int32_t>(),
          .exponent = c.inputs[0].row_exponent(row),
          .classes = c.inputs[0].shape.last(),
          .weights = weights_of(c)};
}

// inputs: logits int32 [N, ..., outputs], labels int32 [N, ...] or as the logits, perhaps weights.
kernels::SigmoidCrossEntropy sigmoid_arguments(const OpContext& c, int64_t row) {
  const Tensor& labels = c.inputs[1];
  return {.logits = c.inputs[0].as<int32_t>(),
          .targets = {labels.as<int32_t>(), c.inputs[0].shape.last(),
                      labels.shape.rank == c.inputs[0].shape.rank},
          .exponent = c.inputs[0].row_exponent(row),
          .weights = weights_of(c)};
}

// The family of kernels that computes a loss.
template <auto kFamily, auto kArguments>
struct ByFamily {
  static auto arguments(const OpContext& c, int64_t row) { return kArguments(c, row); }
  static kernels::LossSums loss(const OpContext& c, int64_t first, int64_t next) {
    return (c.kernel.table->*kFamily)->loss(kArguments(c, first), first, next);
  }
  static kernels::WideStatistics gradient(const OpContext& c, int shift, kernels::MantissaSpan grad,
                                          int64_t first, int64_t next,
                                          kernels::WideCounts* counts) {
    auto args = kArguments(c, first);
    args.counts = counts;
    return (c.kernel.table->*kFamily)->gradient(args, shift, grad, first, next);
  }
  static constexpr auto kKernel = kernel_name<kFamily>;
};

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

// Rows of logits: one for each example, or for each element of its sequence.
int64_t rows_of(const OpContext& c) { return c.inputs[0].shape.count() / c.inputs[0].shape.last(); }

// Calls use(begin, end) for the pieces of [begin, end) whose logits have one exponent.
template <typename Use>
void for_each_exponent(const Tensor& logits, int64_t begin, int64_t end, const Use& use) {
  for (int64_t first = begin, next = begin; first < end; first = next) {
    next = has_rows(logits) ? first + 1 : end;
    while (next < end && logits.row_exponent(next) == logits.row_exponent(first)) ++next;
    use(first, next);
  }
}

template <typename By>
void forward(const OpContext& c) {
  std::array<kernels::LossSums, kernels::kMaximumParts> partial;
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows_of(c), kRowsPerThread, [&](int64_t begin, int64_t end, int64_t part) {
        for_each_exponent(c.inputs[0], begin, end, [&](int64_t first, int64_t next) {
          const kernels::LossSums sums = By::loss(c, first, next);
          partial[part].loss_q24 += sums.loss_q24;
          partial[part].correct += sums.correct;
        });
      });
  for (int64_t part = 0; part < parts; ++part) {
    c.step.loss->loss_q24 += partial[part].loss_q24;
    c.step.loss->correct += partial[part].correct;
  }
  count_rows(By::arguments(c, 0).row_weights(), rows_of(c), *c.step.loss);
}

template <typename By, int kWideExponent>
void backward_input(const OpContext& c) {
  const Tensor& grad = c.grad_inputs[0];
  const int wide_exponent = kWideExponent - By::arguments(c, 0).row_weights().bits();
  narrow_gradient(c, grad, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
    return kernels::parallel_statistics(
        *c.kernel.pool, rows_of(c), kRowsPerThread, [&](int64_t begin, int64_t end, int64_t part) {
          kernels::WideStatistics found;
          for_each_exponent(c.inputs[0], begin, end, [&](int64_t first, int64_t next) {
            found += By::gradient(c, shift, gradient_of(grad), first, next, counts.wide_of(part));
          });
          return found;
        });
  });
}

constexpr Element kTargetElements[] = {Element::kMantissa, Element::kNumber, Element::kNumber};

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
          .weights = weights_of(c)};
}

// Labels are the outputs that are 1, one for each row of logits, or a label for each logit.
Result<std::vector<ValueType>> infer_sigmoid(const Attributes& attributes,
                                             std::span<const Shape> inputs) {
  const bool by_output = is_count(inputs.size()) && inputs[0].rank >= 1 && inputs[1] == inputs[0];
  std::vector<Shape> by_row(inputs.begin(), inputs.end());
  if (by_output) by_row[1] = labels_shape(inputs[0], false);
  auto outputs = infer<kernels::kMaximumClasses>(attributes, by_row);
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
          .integer = {.forward = {.run = forward<By>,
                                  .prepare = schema.specs.empty() ? nullptr : prepare},
                      .grad_input = {.run = backward_input<By, kWideExponent>,
                                     .prepare = schema.specs.empty() ? nullptr : prepare},
                      .kernel = By::kKernel},
          .emit_gradient = emit_gradient_by_inputs,
          .loss_unit = unit,
          .fp32 = fp32};
}

constexpr double kNats = nats_from_q24(1), kSquares = 0x1p-24;

using BySoftmax = ByFamily<&kernels::KernelTable::softmax, softmax_arguments>;
template <auto kArguments>
using BySquaredError = ByFamily<&kernels::KernelTable::squared_error, kArguments>;

constexpr Loss kLosses[] = {{LossKind::kCrossEntropy, "cross-entropy", &kSoftmaxCrossEntropy, true},
                            {LossKind::kSquaredError, "mse", &kMeanSquaredError, false},
                            {LossKind::kSigmoids, "sigmoid", &kSigmoidCrossEntropy, false},
                            {LossKind::kRegression, "regression", &kRegressionError, false}};

}  // namespace

const Op kSoftmaxCrossEntropy =
    row<BySoftmax, kernels::kSoftmaxGradientExponent, kernels::kMaximumClasses>(
        "softmax_cross_entropy", schema<LossAttributes, derive>(kSmoothingSchema), kNats,
        &fp32::kSoftmaxCrossEntropy);
const Op kSigmoidCrossEntropy = [] {
  Op op = row<BySigmoid, kernels::kSoftmaxGradientExponent, kernels::kMaximumClasses>(
      "sigmoid_cross_entropy", {}, kNats, &fp32::kSigmoidCrossEntropy);
  op.infer_outputs = infer_sigmoid;
  return op;
}();
const Op kMeanSquaredError =
    row<BySquaredError<squared_error_arguments>, kernels::kSquaredErrorGradientExponent,
        kernels::kMaximumOutputs>("mean_squared_error", {}, kSquares, &fp32::kMeanSquaredError);
const Op kRegressionError = [] {
  Op op = row<BySquaredError<regression_arguments>, kernels::kSquaredErrorGradientExponent,
              kernels::kMaximumOutputs>("regression_error", {}, kSquares, &fp32::kRegressionError);
  op.infer_outputs = infer_regression;
  op.input_elements = kTargetElements;
  return op;
}();

Shape rows_shape(const Shape& logits) { return labels_shape(logits, false); }

Shape labels_shape(const Shape& logits, bool by_output) {
  Shape shape = logits;
  if (by_output || shape.rank == 0) return shape;
  shape.dims[static_cast<size_t>(--shape.rank)] = 1;
  return shape;
}

void count_rows(const kernels::RowWeights& weights, int64_t rows, LossTotals& totals) {
  totals.rows += rows;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t factor = weights.factor(row);
    totals.counted += factor > 0;
    totals.weight_q10 += factor << (kernels::kRowWeightBits - weights.bits());
  }
}

const Loss& loss_of(LossKind kind) { return kLosses[static_cast<size_t>(kind)]; }

Result<Graph> with_loss(Graph graph, LossKind kind, double smoothing, bool by_output) {
  const int logits = graph.outputs[0];
  const Shape rows = labels_shape(graph.values[logits].shape, by_output);
  const std::vector<int> results = graph.outputs;
  GraphBuilder builder(std::move(graph));
  const int labels = kind == LossKind::kRegression
                         ? builder.add_numbers("targets", builder.shape(logits), kTargetExponent)
                         : builder.add_input("labels", rows, Element::kIndex);
  const Loss& loss = loss_of(kind);
  builder.add_loss(*loss.op, "loss", {logits, labels},
                   loss.smooths ? Attributes{{"smoothing", smoothing}} : Attributes());
  return builder.finish(results);
}

Status add_row_weights(Graph& graph) {
  if (graph.losses.empty()) return invalid_input("the network has no loss to give weights to");
  std::vector<int>& inputs = graph.nodes[graph.losses[0]].inputs;
  if (inputs.size() > 2) return invalid_input("the network's loss has weights of its own");
  Value weights;
  weights.name = "weights";
  weights.shape = rows_shape(graph.values[inputs[0]].shape);
  weights.element = Element::kNumber;
  weights.type = DataType::kInt16;
  weights.exponent = kWeightExponent;
  inputs.push_back(static_cast<int>(graph.values.size()));
  graph.inputs.push_back(inputs.back());
  graph.values.push_back(std::move(weights));
  return {};
}

Result<LossKind> parse_loss(std::string_view name) {
  std::string names;
  for (const Loss& loss : kLosses) {
    if (loss.kind == LossKind::kRegression) continue;
    if (name == loss.name) return loss.kind;
    names += (names.empty() ? "" : ", ") + std::string(loss.name);
  }
  return invalid_input("unknown loss '" + std::string(name) + "'; choose one of " + names);
}

}  // namespace mantissa::ops
