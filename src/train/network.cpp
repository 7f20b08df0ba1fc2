#include "train/network.h"

#include <algorithm>
#include <string>

#include "data/examples.h"
#include "models/bert.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"
#include "train/classifier.h"
#include "train/imported_network.h"
#include "train/language.h"

namespace mantissa {
namespace {

constexpr int64_t kLargestImage = 16384;
constexpr int64_t kMostImageChannels = 4;

Error not_for_examples(const Graph& network, const std::string& why) {
  return invalid_input("network '" + network.name + "': " + why +
                       "; a network of pictures has the inputs 'pixels' (uint8, [H, W, C]) and "
                       "'labels' (int32, [], or [outputs] of sigmoids), one of tables 'numbers' "
                       "(int16, [columns], exponent " +
                       std::to_string(kFeatureExponent) +
                       ") and 'labels' or 'targets' (int16, "
                       "[1], exponent " +
                       std::to_string(kTargetExponent) +
                       "), one output, and one loss that reads both");
}

// An input that examples have: what a network reads, or what its loss compares with.
struct KnownInput {
  const char* name;
  bool (*fits)(const Value& value);
};
bool is_indices(const Value& value, int rank) {
  return value.element == Element::kIndex && value.shape.rank == rank;
}
constexpr KnownInput kKnownInputs[] = {
    {kPixelTensor,
     [](const Value& value) {
       return value.type == DataType::kUint8 && value.shape.rank == 3 &&
              value.shape[0] <= kLargestImage && value.shape[1] <= kLargestImage &&
              value.shape[2] <= kMostImageChannels;
     }},
    {kNumberTensor,
     [](const Value& value) {
       return value.element == Element::kNumber && value.shape.rank == 1 &&
              value.exponent == kFeatureExponent;
     }},
    {kTokenTensor, [](const Value& value) { return is_indices(value, 1); }},
    {kSegmentTensor, [](const Value& value) { return is_indices(value, 1); }},
    {kLengthTensor, [](const Value& value) { return is_indices(value, 0); }},
    {kLabelTensor,
     [](const Value& value) { return value.type == DataType::kInt32 && value.shape.rank <= 1; }},
    {kTargetTensor,
     [](const Value& value) {
       return value.element == Element::kNumber && value.shape == Shape{1} &&
              value.exponent == kTargetExponent;
     }},
};

Status check_inputs(const Graph& network) {
  for (const int input : network.inputs) {
    const Value& value = network.values[input];
    const bool fits = std::any_of(
        std::begin(kKnownInputs), std::end(kKnownInputs),
        [&](const KnownInput& known) { return value.name == known.name && known.fits(value); });
    if (fits) continue;
    return not_for_examples(network, "its input '" + value.name + "' of " + to_string(value.shape) +
                                         " is none of these");
  }
  const auto has = [&](const char* name) { return input_named(network, name) != nullptr; };
  if (has(kPixelTensor) + has(kNumberTensor) + has(kTokenTensor) != 1) {
    return not_for_examples(network, "it has no input 'pixels' or 'numbers'");
  }
  const bool has_any_text = has(kTokenTensor) || has(kSegmentTensor) || has(kLengthTensor);
  if (has_any_text && !(has(kTokenTensor) && has(kLengthTensor))) {
    return not_for_examples(network, "texts need both 'tokens' (int32, [sequence]) and 'lengths' "
                                     "(int32, [])");
  }
  if (has(kLabelTensor) != has(kTargetTensor)) return {};
  return not_for_examples(network, "it has no input 'labels' or 'targets'");
}

// The one loss, between the one result and the labels.
Result<const Node*> loss_of_examples(const Graph& network) {
  if (network.outputs.size() != 1 || network.values[network.outputs[0]].shape.rank != 1) {
    return not_for_examples(network, "it has not one output of [classes]");
  }
  if (network.losses.size() != 1) {
    return not_for_examples(network, "it has " + std::to_string(network.losses.size()) + " losses");
  }
  const Node& loss = network.nodes[network.losses[0]];
  const Value* const labels = input_named(network, kLabelTensor);
  const Value* const compared = labels != nullptr ? labels : input_named(network, kTargetTensor);
  const bool reads_both = loss.inputs.size() == 2 && loss.inputs[0] == network.outputs[0] &&
                          &network.values[loss.inputs[1]] == compared;
  if (!reads_both) {
    return not_for_examples(network, "its loss '" + loss.name + "' reads something else");
  }
  return &loss;
}

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

const Value* input_named(const Graph& network, const std::string& name) {
  const auto found = std::find_if(network.inputs.begin(), network.inputs.end(),
                                  [&](int input) { return network.values[input].name == name; });
  return found == network.inputs.end() ? nullptr : &network.values[*found];
}

Result<ModelOptions> example_options(const Graph& network) {
  MANTISSA_RETURN_IF_ERROR(check_inputs(network));
  MANTISSA_ASSIGN(const Node* loss, loss_of_examples(network));
  const ops::Loss* known = nullptr;
  for (const auto kind : {ops::LossKind::kCrossEntropy, ops::LossKind::kSquaredError,
                          ops::LossKind::kSigmoids, ops::LossKind::kRegression}) {
    if (ops::loss_of(kind).op == loss->op) known = &ops::loss_of(kind);
  }
  if (known == nullptr) return not_for_examples(network, "its loss is none of classes or numbers");
  const bool one_logit = known->kind == ops::LossKind::kSigmoids && network.classes() == 1;
  ModelOptions options{
      .classes = one_logit ? 2 : network.classes(), .one_logit = one_logit, .loss = known->kind};
  if (const Value* const pixels = input_named(network, kPixelTensor)) {
    options.height = pixels->shape[0];
    options.width = pixels->shape[1];
    options.channels = pixels->shape[2];
  } else if (const Value* const tokens = input_named(network, kTokenTensor)) {
    options.sequence = options.features = tokens->shape[0];
  } else {
    options.features = input_named(network, kNumberTensor)->shape[0];
  }
  if (known->smooths) {
    options.label_smoothing = loss->attributes.real("smoothing");
  }
  const int64_t least = known->kind == ops::LossKind::kRegression ? 1 : 2;
  if (options.classes >= least && options.classes <= kMostClasses) return options;
  return not_for_examples(network, "it has " + std::to_string(options.classes) + " classes; 2 to " +
                                       std::to_string(kMostClasses) + " are possible");
}

bool has_one_logit(const Graph& network) {
  const auto options = example_options(network);
  return options.ok() && options->one_logit;
}

bool is_text_encoder(const Graph& network) {
  const Value* const tokens = input_named(network, kTokenTensor);
  return tokens != nullptr && network.inputs.size() == 3 && network.losses.empty() &&
         input_named(network, kSegmentTensor) != nullptr &&
         input_named(network, kLengthTensor) != nullptr && network.outputs.size() == 1 &&
         network.values[network.outputs[0]].shape.rank == 2;
}

bool is_text_classifier(const Graph& network) {
  return input_named(network, kTokenTensor) != nullptr && example_options(network).ok();
}

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

// Data have one class for each example: of several labels it is the only one that is 1.
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

void fill_means(const std::vector<int>& means, Graph& network) {
  for (Node& node : network.nodes) {
    if (node.op != &ops::kNormaliseInput || !node.attributes.list("means").empty()) continue;
    replace_op(node, ops::kNormaliseInput, {{"means", WholeList(means.begin(), means.end())}});
  }
}

void leave_out_means(Graph& network) {
  for (Node& node : network.nodes) {
    if (node.op != &ops::kNormaliseInput || node.attributes.is_set("fraction_bits")) continue;
    replace_op(node, ops::kNormaliseInput);
  }
}

}  // namespace mantissa
