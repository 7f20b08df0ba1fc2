#include "run/settings/run_network.h"

#include <algorithm>
#include <string>
#include <vector>

#include "infer/tasks/language.h"
#include "models/bert.h"
#include "networks/classifier.h"
#include "networks/imported_network.h"
#include "networks/named_inputs.h"
#include "networks/network.h"
#include "networks/untrained.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

// The inputs of a network for these data, and its outputs. Networks of tables name pictures of the
// default size, language models none.
ModelOptions options_of(const DatasetInfo& data) {
  const Shape& input = data.specs[0].shape;
  ModelOptions options;
  if (data.has_named_inputs()) {
    options = {.height = 0, .width = 0, .channels = 0};
  } else if (data.find(kPixelTensor) != nullptr) {
    options = {.height = input[0], .width = input[1], .channels = input[2]};
    options.channel_means.assign(static_cast<size_t>(input[2]), 0);
  } else if (data.target.kind == TargetKind::kTokens) {
    options = {.height = 0, .width = 0, .channels = 0, .sequence = input[0]};
  } else {
    const bool is_text = data.find(kTokenTensor) != nullptr;
    options = {.features = input[0], .sequence = is_text ? input[0] : 0};
  }
  options.classes = data.target.outputs();
  if (data.target.is_number()) options.loss = ops::LossKind::kRegression;
  options.has_labels = data.target.has_labels();
  if (options.has_labels) options.loss = ops::LossKind::kSigmoids;
  return options;
}

}  // namespace

namespace {

// That a network of one logit tells two classes apart, and the data have others.
Error one_logit_for(const std::string& subject, const DatasetInfo& data) {
  return invalid_input(subject + "has one logit, for two classes, and " + data.name + " has " +
                       std::to_string(data.target.classes) +
                       "; --positive CLASS takes that class against all others");
}

}  // namespace

namespace {

Status take_loss_settings(const RunConfig& config, ModelOptions& options) {
  options.label_smoothing = config.label_smoothing;
  options.focal = config.focal;
  options.positive_weights = config.positive_weights;
  options.huber_delta = config.huber_delta;
  return {};
}

// The loss that --loss names, if it is for data of this kind. Numbers are learned by their squared
// error unless another penalty is named.
Status take_loss_of(const RunConfig& config, const DatasetInfo& data, ModelOptions& options) {
  if (data.target.is_sequence()) return {};  // the network says it
  if (data.target.has_labels()) {
    if (config.loss == ops::LossKind::kSigmoids || config.loss == ops::LossKind::kCrossEntropy) {
      return take_loss_settings(config, options);
    }
    return invalid_input("loss " + std::string(ops::loss_of(config.loss).name) +
                         ": labels that do not exclude one another have --loss sigmoid, and " +
                         data.name + " has such labels");
  }
  const bool wants_numbers = ops::is_for_numbers(config.loss);
  const bool is_of_both = config.loss == ops::LossKind::kSquaredError ||
                          config.loss == ops::LossKind::kCrossEntropy;
  if (data.target.is_number() ? !wants_numbers && !is_of_both : wants_numbers) {
    return invalid_input("loss " + std::string(ops::loss_of(config.loss).name) + ": is for " +
                         (wants_numbers ? "numbers" : "classes") + ", and " + data.name + " has " +
                         (wants_numbers ? "classes" : "numbers") + "; see --task");
  }
  if (data.target.is_number() && config.label_smoothing > 0) {
    return invalid_input("label-smoothing: is for classes, and " + data.name +
                         " has numbers; see --task");
  }
  if (wants_numbers || !data.target.is_number()) options.loss = config.loss;
  return take_loss_settings(config, options);
}

// Built-in networks give one class to an example.
Result<ModelOptions> check_has_no_places(const RunConfig& config, const DatasetInfo& data,
                                         const ModelOptions& options) {
  const TensorSpec* const labels = data.find(kLabelTensor);
  const bool has_places = data.target.kind == TargetKind::kClasses && labels != nullptr &&
                          labels->shape.rank > 0;
  if (!has_places) return options;
  return invalid_input("model " + config.model + ": gives a class to an example, and " + data.name +
                       " has one for each of its places " + to_string(labels->shape) +
                       "; a network from JSON, Python or ONNX gives one to each "
                       "(docs/networks.md)");
}

}  // namespace

namespace {

// The same of a network with several outputs.
Result<ModelOptions> options_of_outputs(const RunConfig& config, const DatasetInfo& data) {
  MANTISSA_ASSIGN(ModelOptions wanted, example_options(*config.network));
  const Status fits = check_examples(*config.network, data);
  if (!fits.ok()) return invalid_input(config.network_file + ": " + fits.error().message);
  ModelOptions options = options_of(data);
  if (data.has_named_inputs()) options.sequence = options.features = wanted.features;
  options.outputs = std::move(wanted.outputs);
  for (size_t i = 0; i < options.outputs.size(); ++i) {
    options.outputs[i].has_labels = data.target.parts[i].has_labels();
  }
  return options;
}

}  // namespace

Result<ModelOptions> model_options(const RunConfig& config, const DatasetInfo& data) {
  MANTISSA_RETURN_IF_ERROR(check_settings_of_data(config, data));
  if (config.network && has_several_outputs(*config.network)) {
    return options_of_outputs(config, data);
  }
  ModelOptions options = options_of(data);
  options.width_multiplier = config.width;
  MANTISSA_RETURN_IF_ERROR(take_loss_of(config, data, options));
  options.one_logit =
      options.loss == ops::LossKind::kSigmoids && options.classes == 2 && !options.has_labels;
  options.hidden = config.hidden;
  options.tied = config.tied;
  if (!config.network) return check_has_no_places(config, data, options);
  if (data.target.kind == TargetKind::kTokens) {
    MANTISSA_ASSIGN(const LanguageOptions language, language_options(*config.network));
    if (language.vocabulary >= data.target.classes) return options;
    return invalid_input(config.network_file + ": the network '" + config.model + "' knows " +
                         std::to_string(language.vocabulary) + " tokens, and " + data.name +
                         " has " + std::to_string(data.target.classes));
  }
  const std::string subject = config.network_file + ": the network '" + config.model + "' ";
  MANTISSA_ASSIGN(const ModelOptions wanted, example_options(*config.network));
  const Status fits = check_examples(*config.network, data);
  if (!fits.ok()) return invalid_input(config.network_file + ": " + fits.error().message);
  if (wanted.one_logit && options.classes != 2) return one_logit_for(subject, data);
  options.loss = wanted.loss;
  options.one_logit = wanted.one_logit;
  // Of a text classifier whose tokens come from arrays.
  if (data.has_named_inputs()) options.sequence = options.features = wanted.features;
  options.has_labels = data.target.has_labels();
  if (options.classes != wanted.classes) {
    return invalid_input(
        subject + "has " + std::to_string(wanted.classes) + " outputs, and " + data.name + " " +
        std::to_string(options.classes) +
        (data.target.is_number() ? " numbers" : data.target.has_labels() ? " labels" : " classes") +
        (options.classes < wanted.classes && data.target.kind == TargetKind::kClasses
             ? "; --classes " + std::to_string(wanted.classes) + " leaves the others unused"
             : options.classes > wanted.classes ? ignore_remedy(data) : ""));
  }
  return options;
}

namespace {

// For a network of several labels, data may have a 0 or 1 for each; or one class for each example,
// which is the only label that is 1.
void take_labels(const ModelOptions& options, Graph& network) {
  for (size_t i = 0; i < network.losses.size(); ++i) {
    const Node& loss = network.nodes[network.losses[i]];
    const bool has_labels =
        options.outputs.empty() ? options.has_labels : options.outputs[i].has_labels;
    if (loss.op != &ops::kSigmoidCrossEntropy || ops::is_ordinal(loss)) continue;
    const Shape& logits = network.values[loss.inputs[0]].shape;
    network.values[loss.inputs[1]].shape = ops::labels_shape(logits, has_labels);
  }
}

Result<Graph> base_network(const RunConfig& config, const ModelOptions& options) {
  if (!config.network) return build_model(config.model, options);
  Graph network = *config.network;
  fill_means(options.channel_means, network);
  take_labels(options, network);
  return network;
}

}  // namespace

Result<Graph> build_network(const RunConfig& config, const ModelOptions& options) {
  MANTISSA_ASSIGN(Graph network, base_network(config, options));
  if (config.lora.rank == 0) return network;
  return with_adapters(network, config.lora);
}

Status choose_trained(const RunConfig& config, Graph& graph) {
  if (config.lora.rank > 0 && config.start) {
    MANTISSA_RETURN_IF_ERROR(
        leave_base_untrained(config.start->parameters, config.lora.also, graph));
  }
  return leave_untrained(config.freeze, graph);
}

namespace {

// An imported model learns numbers if the data have them, by their squared error: what the end of
// the model and --loss say fits classes and numbers.
Status take_numbers(const DatasetInfo& data, RunConfig& config) {
  const bool learns_numbers = ops::is_for_numbers(config.loss);
  if (!config.is_imported || !config.network || learns_numbers == data.target.is_number()) {
    return {};
  }
  onnx::ImportOptions& options = config.import_options;
  if (learns_numbers) {
    if (config.network->classes() != 1 || data.target.has_labels()) return {};
    return invalid_input("the network '" + config.model + "' has one output, and " + data.name +
                         " has classes; --loss sigmoid takes the output for the logit of the "
                         "second of two classes");
  }
  if (options.has_loss && options.loss.kind != ops::LossKind::kSquaredError) return {};
  options.loss.kind = ops::LossKind::kRegression;
  options.has_loss = true;
  MANTISSA_ASSIGN(onnx::ImportedNetwork imported, import_file(config.network_file, options));
  config.network = std::move(imported.graph);
  config.loss = options.loss.kind;
  if (config.start) config.start->options = options;
  return {};
}

}  // namespace

Status adapt_classes(const DatasetInfo& data, RunConfig& config) {
  if (config.network && has_several_outputs(*config.network)) return {};
  MANTISSA_RETURN_IF_ERROR(take_numbers(data, config));
  if (!config.adapts_classes || !config.network || data.target.is_number()) return {};
  if (is_text_encoder(*config.network)) {
    if (data.find(kTokenTensor) == nullptr) {
      return invalid_input("the network '" + config.model + "' takes texts, and " + data.name +
                           " has none: --data names a CSV file with a column of texts");
    }
    MANTISSA_ASSIGN(config.network, text_classifier(*config.network, data.target.classes));
    return {};
  }
  const bool one_logit = has_one_logit(*config.network);
  if (one_logit && data.target.classes != 2) {
    return one_logit_for("the network '" + config.model + "' ", data);
  }
  const auto options = example_options(*config.network);
  const bool has_ranks = options.ok() && options->loss == ops::LossKind::kOrdinal;
  const int64_t outputs = data.target.classes - has_ranks;
  if (one_logit || config.network->classes() == outputs) {
    if (config.classifier.empty()) return {};
    return invalid_input("classifier: the network '" + config.model + "' has " +
                         std::to_string(outputs) + " outputs already, as many as " +
                         data.name + " has classes; leave it out");
  }
  MANTISSA_RETURN_IF_ERROR(
      check_output_chosen(config.model_outputs, config.import_options.output, outputs));
  MANTISSA_ASSIGN(config.network, with_classes(*config.network, outputs, config.classifier));
  return {};
}

void adapt_learning_rate(const DatasetInfo& data, RunConfig& config) {
  constexpr double kOfRegression = 0.2;
  const auto& derived = config.derived;
  const bool is_derived =
      std::find(derived.begin(), derived.end(), "learning-rate") != derived.end();
  const auto& parts = data.target.parts;
  const bool has_numbers = data.target.is_number() ||
                           std::any_of(parts.begin(), parts.end(), [](const Target& target) {
                             return target.is_number();
                           });
  if (!has_numbers || !is_derived || optimizer(config.optimizer).learning_rate > 0)
    return;
  config.learning_rate = kOfRegression * default_learning_rate(config.model);
}

}  // namespace mantissa
