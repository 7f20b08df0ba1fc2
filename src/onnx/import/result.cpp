#include "onnx/import/result.h"

#include <algorithm>
#include <utility>

#include "formats/arrays/safetensors_header.h"
#include "models/models.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/import/rows.h"
#include "ops/loss.h"
#include "ops/losses/named_loss.h"
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
Result<ops::LossOptions> loss_of(const ImportOptions& options, const ModelResult& result,
                                 size_t index) {
  ops::LossOptions loss = options.loss;
  if (!options.losses.empty()) loss.kind = options.losses[index];
  const bool is_of_several = !result.targets.empty();
  if (is_of_several && loss.kind == ops::LossKind::kSquaredError) {
    loss.kind = ops::LossKind::kRegression;
  }
  const std::string subject =
      is_of_several ? "the output '" + readable(result.output) + "'" : "the model";
  if (!options.has_loss) {
    loss.kind = result.loss.value_or(ops::LossKind::kCrossEntropy);
  } else if (result.loss && ops::is_for_numbers(loss.kind)) {
    return invalid_input(
        subject + " ends with the probabilities of classes, as --loss " +
        std::string(ops::loss_of(*result.loss).name) +
        " has them, and numbers are to be learned; --output names another output, or the model is "
        "exported without its last node");
  } else if (result.loss && result.loss != loss.kind) {
    return invalid_input("loss " + std::string(ops::loss_of(loss.kind).name) + ": " + subject +
                         " ends with the probabilities of --loss " +
                         ops::loss_of(*result.loss).name +
                         (is_of_several ? "; name this for it" : "; leave --loss out"));
  }
  return loss;
}

// One number is no class: it is learned as a number, unless another loss is named.
void take_one_number(ImportContext& context, const ModelResult& result, ops::LossOptions& loss) {
  const bool is_named = context.options->has_loss && loss.kind != ops::LossKind::kSquaredError;
  if (is_named || result.loss) return;
  loss.kind = ops::LossKind::kRegression;
  const bool is_of_several = !result.targets.empty();
  if (context.options->has_loss || is_of_several) return;
  context.notes.emplace_back(
      "the output is one number, which is learned as a number; --loss sigmoid takes it for the "
      "logit of the second of two classes");
}

Result<Logits> logits_of_rows(ImportContext& context, const ModelResult& result,
                              const Imported& value, ops::LossOptions& loss) {
  const Result<int64_t> channels = channels_of(context, value);
  if (!channels.ok() || !value.scale.empty()) {
    return invalid_input("the output '" + readable(result.value) +
                         "' has its channels not in its last dimension, or a factor behind them");
  }
  if (*channels == 1 && context.builder.shape(value.value).rank == 1) {
    take_one_number(context, result, loss);
  }
  if (*channels < least_outputs(loss.kind)) {
    return invalid_input("the output '" + readable(result.value) + "' has one channel; --loss sigmoid " +
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

Result<Logits> logits_of_places(ImportContext& context, const ModelResult& result, Imported value,
                                ops::LossKind loss) {
  const std::vector<int64_t> dims = value.layout.dims();
  const int64_t least = loss == ops::LossKind::kSigmoids ? 1 : 2;
  if (dims[0] < least || dims[0] > kMostClasses) {
    return invalid_input("the output '" + readable(result.value) + "' has " + std::to_string(dims[0]) +
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

Result<Logits> logits_of_image(ImportContext& context, const ModelResult& result, Imported value,
                               ops::LossOptions& loss) {
  if (is_of_places(value)) return logits_of_places(context, result, std::move(value), loss.kind);
  const int64_t count = value.layout.count();
  if (count == 1) take_one_number(context, result, loss);
  const int64_t least = least_outputs(loss.kind);
  if (!value.layout.reshape(std::vector<int64_t>{count})) {
    return invalid_input("the output '" + readable(result.value) + "' is no vector");
  }
  MANTISSA_ASSIGN(Vector vector, vector_of(context, value, true));
  if (!vector.places.empty() || count < least || count > kMostClasses) {
    return invalid_input("the output '" + readable(result.value) + "' has " + std::to_string(count) +
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
  const std::string name = new_name(context, "classifier");
  context.notes.push_back(
      "a linear layer, '" + name +
      "', stands behind the output, since the loss reads the sums of a linear layer or "
      "convolution, and none of them ends the model");
  return add_node(context, ops::kLinear, name, {logits.value},
                  {{"channels", count}, {"bias", 0}, {"classifier", 1}}, {std::move(identity)});
}

// A result of the network, and its loss.
struct Ending {
  int value;
  ops::LossOptions loss;
};

Result<Ending> ending_of(ImportContext& context, const ModelResult& result, size_t index) {
  const auto found = context.values.find(result.value);
  if (found == context.values.end()) {
    return invalid_input("the output '" + readable(result.value) +
                         "' is nothing that the graph computes");
  }
  const Imported& value = found->second;
  MANTISSA_ASSIGN(ops::LossOptions loss, loss_of(*context.options, result, index));
  MANTISSA_ASSIGN(const Logits logits, value.form == Form::kRows
                                           ? logits_of_rows(context, result, value, loss)
                                           : logits_of_image(context, result, value, loss));
  MANTISSA_ASSIGN(const int made, made_by_layer(context, logits));
  const bool is_of_several = !result.targets.empty();
  if (is_of_several && context.builder.shape(made).rank > 1) {
    return invalid_input("the output '" + readable(result.output) +
                         "' has a class for each place, and must be the only one: --output names "
                         "it alone, or others");
  }
  loss.by_output = loss.kind == ops::LossKind::kSigmoids && logits.channels > 1;
  return Ending{made, std::move(loss)};
}

Status check_loss_count(const ImportOptions& options, const std::vector<ModelResult>& results) {
  if (options.losses.empty() || options.losses.size() == results.size()) return {};
  std::string names;
  for (const ModelResult& result : results) {
    names += (names.empty() ? "" : ", ") + readable(result.output);
  }
  return invalid_input("loss: names " + std::to_string(options.losses.size()) +
                       " losses, and the network has the outputs " + names +
                       "; name one for all, or one for each");
}

// An error for a setting that none of several losses takes.
Status check_loss_settings(const ImportOptions& options, const std::vector<Ending>& endings) {
  const auto has = [&](auto takes) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](const Ending& ending) { return takes(ending.loss.kind); });
  };
  const bool has_sigmoids = has([](ops::LossKind kind) {
    return kind == ops::LossKind::kSigmoids || kind == ops::LossKind::kOrdinal;
  });
  const auto unused = [](const char* setting, const char* losses) {
    return invalid_input(std::string(setting) + ": goes with --loss " + losses +
                         ", and no output has it");
  };
  if (options.loss.smoothing > 0 &&
      !has([](ops::LossKind kind) { return ops::loss_of(kind).smooths; })) {
    return unused("label-smoothing", "cross-entropy or sigmoid");
  }
  if (options.loss.focal > 0 && !has_sigmoids) return unused("focal", "sigmoid");
  if (!options.loss.positive_weights.empty() && !has_sigmoids) {
    return unused("positive-weights", "sigmoid");
  }
  if (options.loss.delta != 1 &&
      !has([](ops::LossKind kind) { return kind == ops::LossKind::kHuber; })) {
    return unused("huber-delta", "huber");
  }
  return {};
}

// The graph with the losses of several results. Notes say the names of their labels and targets.
Result<Graph> with_losses(ImportContext& context, const std::vector<ModelResult>& results,
                          const std::vector<Ending>& endings, Graph graph) {
  const std::vector<int> values = graph.outputs;
  GraphBuilder builder(std::move(graph));
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& [value, loss] = endings[i];
    const std::string& targets = results[i].targets;
    const int64_t channels = builder.shape(value).last();
    const bool is_of_numbers = ops::is_for_numbers(loss.kind);
    ops::add_loss(builder, value, loss, targets, new_name(context, targets + "_loss"));
    context.notes.push_back(
        "the output '" + readable(results[i].output) + "' has the loss " +
        (loss.kind == ops::LossKind::kRegression ? "mse" : ops::loss_of(loss.kind).name) + " of " +
        std::to_string(channels) +
        (is_of_numbers ? channels == 1 ? " number" : " numbers"
                       : channels == 1 ? " logit" : " logits") +
        "; the data call its " + (is_of_numbers ? "targets" : "labels") + " '" + targets + "'");
  }
  return builder.finish(values);
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

Result<Graph> finish(ImportContext& context, const std::vector<ModelResult>& results) {
  MANTISSA_RETURN_IF_ERROR(check_loss_count(*context.options, results));
  std::vector<Ending> endings;
  std::vector<int> values;
  for (size_t i = 0; i < results.size(); ++i) {
    MANTISSA_ASSIGN(Ending ending, ending_of(context, results[i], i));
    const auto same = std::find(values.begin(), values.end(), ending.value);
    if (same != values.end()) {
      return invalid_input("the outputs '" + readable(results[same - values.begin()].output) +
                           "' and '" + readable(results[i].output) +
                           "' have the same numbers before their losses; --output names one of "
                           "them");
    }
    values.push_back(ending.value);
    endings.push_back(std::move(ending));
  }
  if (results.size() > 1) MANTISSA_RETURN_IF_ERROR(check_loss_settings(*context.options, endings));
  MANTISSA_ASSIGN(Graph graph, context.builder.finish(values));
  for (Parameter& parameter : graph.parameters) {
    if (context.untrained.contains(parameter.name)) parameter.trained = false;
  }
  if (results.size() == 1) return ops::with_loss(std::move(graph), endings[0].loss);
  return with_losses(context, results, endings, std::move(graph));
}

}  // namespace mantissa::onnx
