#include "onnx/import/result.h"

#include <algorithm>
#include <utility>

#include "formats/arrays/safetensors_header.h"
#include "models/models.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/import/rows.h"
#include "ops/loss.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// The numbers that the loss compares with labels, and factors that they still have.
struct Logits {
  int value;
  int64_t channels;
  std::vector<double> factors;
};

int64_t least_outputs(ops::LossKind loss) {
  const bool has_classes =
      loss == ops::LossKind::kCrossEntropy || loss == ops::LossKind::kSquaredError;
  return has_classes ? 2 : 1;
}

// The loss that the settings choose, or that follows from the end of the model.
Result<ops::LossOptions> loss_of(const ImportContext& context) {
  ops::LossOptions loss = context.options->loss;
  if (!context.options->has_loss) {
    loss.kind = context.loss.value_or(ops::LossKind::kCrossEntropy);
  } else if (context.loss && ops::is_for_numbers(loss.kind)) {
    return invalid_input(
        "the model ends with the probabilities of classes, as --loss " +
        std::string(ops::loss_of(*context.loss).name) +
        " has them, and numbers are to be learned; --output names another output, or the model is "
        "exported without its last node");
  } else if (context.loss && context.loss != loss.kind) {
    return invalid_input("loss " + std::string(ops::loss_of(loss.kind).name) +
                         ": the model ends with the probabilities of --loss " +
                         ops::loss_of(*context.loss).name + "; leave --loss out");
  }
  return loss;
}

// One number is no class: it is learned as a number, unless another loss is named.
void take_one_number(ImportContext& context, ops::LossOptions& loss) {
  const bool is_named = context.options->has_loss && loss.kind != ops::LossKind::kSquaredError;
  if (is_named || context.loss) return;
  loss.kind = ops::LossKind::kRegression;
  if (context.options->has_loss) return;
  context.notes.emplace_back(
      "the output is one number, which is learned as a number; --loss sigmoid takes it for the "
      "logit of the second of two classes");
}

Result<Logits> logits_of_rows(ImportContext& context, const std::string& result,
                              const Imported& value, ops::LossOptions& loss) {
  const Result<int64_t> channels = channels_of(context, value);
  if (!channels.ok() || !value.scale.empty()) {
    return invalid_input("the output '" + readable(result) +
                         "' has its channels not in its last dimension, or a factor behind them");
  }
  if (*channels == 1 && context.builder.shape(value.value).rank == 1) {
    take_one_number(context, loss);
  }
  if (*channels < least_outputs(loss.kind)) {
    return invalid_input("the output '" + readable(result) + "' has one channel; --loss sigmoid " +
                         "takes it for the logit of the second of two classes");
  }
  return Logits{value.value, *channels, {}};
}

// Whether the output is [N, classes, T], [N, classes, H, W] or [N, classes, D, H, W]: logits of each
// position, pixel or place of a volume.
bool is_of_places(const Imported& value) {
  const std::vector<int64_t> dims = value.layout.dims();
  return dims.size() >= 2 && dims.size() <= 4 && value.layout.count() > dims[0] &&
         !value.is_channels_last();
}

Result<Logits> logits_of_places(ImportContext& context, const std::string& result, Imported value,
                                ops::LossKind loss) {
  const std::vector<int64_t> dims = value.layout.dims();
  const int64_t least = loss == ops::LossKind::kSigmoids ? 1 : 2;
  if (dims[0] < least || dims[0] > kMostClasses) {
    return invalid_input("the output '" + readable(result) + "' has " + std::to_string(dims[0]) +
                         " channels at each place; 2 to " + std::to_string(kMostClasses) +
                         " classes are possible, or one logit with a Sigmoid behind it");
  }
  const int channels_last[] = {1, 0};
  const bool is_sequence = dims.size() == 2 && value.scale.empty() &&
                           context.builder.shape(value.value) == Shape{dims[1], dims[0]} &&
                           value.layout.lies_as(channels_last);
  if (is_sequence) return Logits{value.value, dims[0], {}};
  if (dims.size() == 2) value.layout.reshape(std::vector<int64_t>{dims[0], 1, dims[1]});
  MANTISSA_ASSIGN(const int image, images_of(context, value));
  if (dims.size() > 2) return Logits{image, dims[0], {}};
  MANTISSA_ASSIGN(const int rows,
                  add_node(context, ops::kReshape, new_name(context, "reshape"), {image},
                           {{"width", dims[1]}, {"channels", dims[0]}}));
  return Logits{rows, dims[0], {}};
}

Result<Logits> logits_of_image(ImportContext& context, const std::string& result, Imported value,
                               ops::LossOptions& loss) {
  if (is_of_places(value)) return logits_of_places(context, result, std::move(value), loss.kind);
  const int64_t count = value.layout.count();
  if (count == 1) take_one_number(context, loss);
  const int64_t least = least_outputs(loss.kind);
  if (!value.layout.reshape(std::vector<int64_t>{count})) {
    return invalid_input("the output '" + readable(result) + "' is no vector");
  }
  MANTISSA_ASSIGN(Vector vector, vector_of(context, value, true));
  if (!vector.places.empty() || count < least || count > kMostClasses) {
    return invalid_input("the output '" + readable(result) + "' has " + std::to_string(count) +
                         " numbers an example; a network of pictures has 2 to " +
                         std::to_string(kMostClasses) +
                         " classes, or one logit with a Sigmoid behind it or --loss sigmoid");
  }
  return Logits{vector.value, count, std::move(vector.scale)};
}

// The value. If no layer makes it, or if it has factors, the result of a linear layer that is added
// after it and changes nothing yet: the loss reads the wide sums of a layer.
Result<int> made_by_layer(ImportContext& context, const Logits& logits) {
  const Graph& graph = context.builder.graph();
  const int producer = graph.values[logits.value].producer;
  const std::vector<double>& factors = logits.factors;
  if (producer >= 0 && may_leave_wide(*graph.nodes[producer].op) && factors.empty()) {
    return logits.value;
  }
  const int64_t count = logits.channels;
  if (count > kMostClasses) {
    return invalid_input("no layer makes the output, and one of " + std::to_string(count) +
                         " channels is too large to stand behind it; at most " +
                         std::to_string(kMostClasses) + " are possible");
  }
  std::vector<double> identity(static_cast<size_t>(count * count), 0.0);
  for (int64_t i = 0; i < count; ++i) {
    identity[i * count + i] =
        factors.empty() ? 1 : factors[static_cast<size_t>(i % std::ssize(factors))];
  }
  context.notes.emplace_back(
      "a linear layer, 'classifier', stands behind the output, since the loss reads the sums of a "
      "linear layer or convolution, and none of them ends the model");
  return add_node(context, ops::kLinear, new_name(context, "classifier"), {logits.value},
                  {{"channels", count}, {"bias", 0}, {"classifier", 1}}, {std::move(identity)});
}

}  // namespace

bool is_over_classes(const ImportContext& context, const NodeData& softmax,
                     const Imported& value) {
  const std::vector<int64_t> dims = value.layout.dims();
  const int64_t examples = value.form == Form::kRows ? 0 : 1;  // dimensions that no layout has
  const bool is_old = opset_of(softmax, context.opset) < 13;
  int64_t dim = whole_of(softmax, "axis", is_old ? 1 : -1);
  dim += dim < 0 ? std::ssize(dims) : -examples;
  if (dim < 0 || dim >= std::ssize(dims)) return false;
  if (is_old) {  // all dimensions from the axis on are one
    const auto is_long = [](int64_t size) { return size > 1; };
    if (std::count_if(dims.begin() + dim, dims.end(), is_long) > 1) return false;
    const auto found = std::find_if(dims.begin() + dim, dims.end(), is_long);
    if (found != dims.end()) dim = found - dims.begin();
  }
  return dims[dim] == context.builder.shape(value.value).last() &&
         value.layout.step_of(static_cast<size_t>(dim)) == 1;
}

Result<Graph> finish(ImportContext& context, const std::string& result) {
  const auto found = context.values.find(result);
  if (found == context.values.end()) {
    return invalid_input("the output '" + readable(result) +
                         "' is nothing that the graph computes");
  }
  const Imported& value = found->second;
  MANTISSA_ASSIGN(ops::LossOptions loss, loss_of(context));
  MANTISSA_ASSIGN(const Logits logits, value.form == Form::kRows
                                           ? logits_of_rows(context, result, value, loss)
                                           : logits_of_image(context, result, value, loss));
  MANTISSA_ASSIGN(const int made, made_by_layer(context, logits));
  MANTISSA_ASSIGN(Graph graph, context.builder.finish(made));
  for (Parameter& parameter : graph.parameters) {
    if (context.untrained.contains(parameter.name)) parameter.trained = false;
  }
  loss.by_output = loss.kind == ops::LossKind::kSigmoids && logits.channels > 1;
  return ops::with_loss(std::move(graph), loss);
}

}  // namespace mantissa::onnx
