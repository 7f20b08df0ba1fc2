#include "run/settings/run_network.h"

#include <algorithm>
#include <string>
#include <vector>

#include "infer/tasks/language.h"
#include "models/bert.h"
#include "networks/classifier.h"
#include "networks/imported_network.h"
#include "networks/network.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

// "tables of 13 numbers", "texts of 128 tokens", "pictures of [28, 28, 1]".
std::string examples_text(const ModelOptions& options) {
  if (options.sequence > 0) return "texts of " + std::to_string(options.sequence) + " tokens";
  if (options.features > 0) return "tables of " + std::to_string(options.features) + " numbers";
  return "pictures of " + to_string(Shape{options.height, options.width, options.channels});
}

ModelOptions options_of(const DatasetInfo& data) {
  if (data.table && data.table->text) {
    return {.features = data.table->features(), .sequence = data.table->text->sequence};
  }
  if (data.table) return {.features = data.table->features()};
  return {.height = data.height, .width = data.width, .channels = data.channels};
}

}  // namespace

Status check_examples(const Graph& network, const DatasetInfo& data) {
  MANTISSA_ASSIGN(const ModelOptions wanted, example_options(network));
  const ModelOptions is = options_of(data);
  const std::string wants_text = examples_text(wanted), is_text = examples_text(is);
  const bool resizes = is.features + wanted.features == 0 && is.channels == wanted.channels;
  if (is_text != wants_text) {
    return invalid_input("the network '" + network.name + "' takes " + wants_text + ", and " +
                         data.name + " has " + is_text +
                         (resizes ? "; --input-size resizes them" : ""));
  }
  const bool predicts_numbers = wanted.loss == ops::LossKind::kRegression;
  if (predicts_numbers == data.is_regression()) return {};
  return invalid_input("the network '" + network.name + "' predicts " +
                       (predicts_numbers ? "numbers" : "classes") + ", and " + data.name + " has " +
                       (predicts_numbers ? "classes" : "numbers") + "; see --task");
}

namespace {

// That a network of one logit tells two classes apart, and the data have others.
Error one_logit_for(const std::string& subject, const DatasetInfo& data) {
  return invalid_input(subject + "has one logit, for two classes, and " + data.name + " has " +
                       std::to_string(data.classes) +
                       "; --positive CLASS takes that class against all others");
}

}  // namespace

Result<ModelOptions> model_options(const RunConfig& config, const DatasetInfo& data) {
  if (data.table && config.augmentation != Augmentation{}) {
    return invalid_input("augment: is for pictures, and " + data.name + " is a table");
  }
  if (data.table && config.input_size != PictureSize{}) {
    return invalid_input("input-size: is for pictures, and " + data.name + " is a table");
  }
  ModelOptions options = options_of(data);
  options.classes = data.is_regression() ? 1 : data.classes;
  options.width_multiplier = config.width;
  options.channel_means = std::vector<int>(data.channels, 0);
  options.loss = data.is_regression() ? ops::LossKind::kRegression : config.loss;
  options.one_logit = options.loss == ops::LossKind::kSigmoids && options.classes == 2;
  options.label_smoothing = config.label_smoothing;
  options.hidden = config.hidden;
  if (config.sequence > 0) options.sequence = config.sequence;
  options.tied = config.tied;
  if (!config.network) return options;
  if (config.sequence > 0) {
    MANTISSA_ASSIGN(const LanguageOptions language, language_options(*config.network));
    if (language.vocabulary >= data.classes) return options;
    return invalid_input(config.network_file + ": the network '" + config.model + "' knows " +
                         std::to_string(language.vocabulary) + " tokens, and " + data.name +
                         " has " + std::to_string(data.classes));
  }
  const std::string subject = config.network_file + ": the network '" + config.model + "' ";
  MANTISSA_ASSIGN(const ModelOptions wanted, example_options(*config.network));
  const Status fits = check_examples(*config.network, data);
  if (!fits.ok()) return invalid_input(config.network_file + ": " + fits.error().message);
  if (wanted.one_logit && options.classes != 2) return one_logit_for(subject, data);
  options.loss = wanted.loss;
  options.one_logit = wanted.one_logit;
  if (options.classes != wanted.classes) {
    return invalid_input(
        subject + "has " + std::to_string(wanted.classes) + " outputs, and " + data.name + " " +
        std::to_string(options.classes) + " classes" +
        (options.classes < wanted.classes
             ? "; --classes " + std::to_string(wanted.classes) + " leaves the others unused"
             : ""));
  }
  return options;
}

namespace {

// Data have one class for each example. For a network of several labels it is the only label that
// is 1.
void take_classes(Graph& network) {
  for (const int n : network.losses) {
    const Node& loss = network.nodes[n];
    Value& labels = network.values[loss.inputs[1]];
    const Shape& logits = network.values[loss.inputs[0]].shape;
    if (loss.op == &ops::kSigmoidCrossEntropy && labels.shape == logits) {
      labels.shape = ops::rows_shape(logits);
    }
  }
}

}  // namespace

Result<Graph> build_network(const RunConfig& config, const ModelOptions& options) {
  if (!config.network) return build_model(config.model, options);
  Graph network = *config.network;
  fill_means(options.channel_means, network);
  take_classes(network);
  return network;
}

Status adapt_classes(const DatasetInfo& data, RunConfig& config) {
  if (!config.adapts_classes || !config.network || data.is_regression()) return {};
  if (is_text_encoder(*config.network)) {
    if (!data.table) {
      return invalid_input("the network '" + config.model + "' takes texts, and " + data.name +
                           " has none: --data names a CSV file with a column of texts");
    }
    MANTISSA_ASSIGN(config.network, text_classifier(*config.network, data.classes));
    return {};
  }
  const bool one_logit = has_one_logit(*config.network);
  if (one_logit && data.classes != 2) {
    return one_logit_for("the network '" + config.model + "' ", data);
  }
  if (one_logit || config.network->classes() == data.classes) {
    if (config.classifier.empty()) return {};
    return invalid_input("classifier: the network '" + config.model + "' has " +
                         std::to_string(data.classes) + " outputs already, as many as " +
                         data.name + " has classes; leave it out");
  }
  MANTISSA_RETURN_IF_ERROR(
      check_output_chosen(config.model_outputs, config.import_options.output, data.classes));
  MANTISSA_ASSIGN(config.network, with_classes(*config.network, data.classes, config.classifier));
  return {};
}

void adapt_learning_rate(const DatasetInfo& data, RunConfig& config) {
  constexpr double kOfRegression = 0.2;
  const auto& derived = config.derived;
  const bool is_derived =
      std::find(derived.begin(), derived.end(), "learning-rate") != derived.end();
  if (!data.is_regression() || !is_derived || optimizer(config.optimizer).learning_rate > 0) return;
  config.learning_rate = kOfRegression * default_learning_rate(config.model);
}

}  // namespace mantissa
