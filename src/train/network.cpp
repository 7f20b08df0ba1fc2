#include "train/network.h"

#include <algorithm>
#include <string>

#include "ops/ops.h"
#include "train/classifier.h"
#include "train/imported_network.h"

namespace mantissa {
namespace {

constexpr int64_t kLargestImage = 16384;
constexpr int64_t kMostImageChannels = 4;

Error not_for_pictures(const Graph& network, const std::string& why) {
  return invalid_input("network '" + network.name + "': " + why +
                       "; a network of pictures has the inputs 'pixels' (uint8, [H, W, C]) and "
                       "'labels' (int32, []), one output, and one loss that reads both");
}

const Value* input_named(const Graph& network, const std::string& name) {
  const auto found = std::find_if(network.inputs.begin(), network.inputs.end(),
                                  [&](int input) { return network.values[input].name == name; });
  return found == network.inputs.end() ? nullptr : &network.values[*found];
}

Status check_inputs(const Graph& network) {
  for (const int input : network.inputs) {
    const Value& value = network.values[input];
    const bool is_pixels = value.name == "pixels" && value.type == DataType::kUint8 &&
                           value.shape.rank == 3 && value.shape[0] <= kLargestImage &&
                           value.shape[1] <= kLargestImage && value.shape[2] <= kMostImageChannels;
    const bool is_labels =
        value.name == "labels" && value.type == DataType::kInt32 && value.shape.rank == 0;
    if (is_pixels || is_labels) continue;
    return not_for_pictures(network, "its input '" + value.name + "' of " + to_string(value.shape) +
                                         " is neither pixels nor labels");
  }
  for (const char* name : {"pixels", "labels"}) {
    if (input_named(network, name) != nullptr) continue;
    return not_for_pictures(network, std::string("it has no input '") + name + "'");
  }
  return {};
}

// The one loss, between the one result and the labels.
Result<const Node*> loss_of_pictures(const Graph& network) {
  if (network.outputs.size() != 1 || network.values[network.outputs[0]].shape.rank != 1) {
    return not_for_pictures(network, "it has not one output of [classes]");
  }
  if (network.losses.size() != 1) {
    return not_for_pictures(network, "it has " + std::to_string(network.losses.size()) + " losses");
  }
  const Node& loss = network.nodes[network.losses[0]];
  const bool reads_both = loss.inputs.size() == 2 && loss.inputs[0] == network.outputs[0] &&
                          &network.values[loss.inputs[1]] == input_named(network, "labels");
  if (!reads_both) {
    return not_for_pictures(network, "its loss '" + loss.name + "' reads something else");
  }
  return &loss;
}

}  // namespace

Result<ModelOptions> picture_options(const Graph& network) {
  MANTISSA_RETURN_IF_ERROR(check_inputs(network));
  MANTISSA_ASSIGN(const Node* loss, loss_of_pictures(network));
  const ops::Loss* known = nullptr;
  for (const auto kind : {ops::LossKind::kCrossEntropy, ops::LossKind::kSquaredError}) {
    if (ops::loss_of(kind).op == loss->op) known = &ops::loss_of(kind);
  }
  if (known == nullptr) return not_for_pictures(network, "its loss is no loss of classes");
  const Shape& pixels = input_named(network, "pixels")->shape;
  ModelOptions options{.height = pixels[0],
                       .width = pixels[1],
                       .channels = pixels[2],
                       .classes = network.classes(),
                       .loss = known->kind};
  if (known->smooths) {
    options.label_smoothing = loss->attributes.real("smoothing");
  }
  if (options.classes >= 2 && options.classes <= kMostClasses) return options;
  return not_for_pictures(network, "it has " + std::to_string(options.classes) + " classes; 2 to " +
                                       std::to_string(kMostClasses) + " are possible");
}

Status check_pictures(const Graph& network, const DatasetInfo& data) {
  MANTISSA_ASSIGN(const ModelOptions wanted, picture_options(network));
  const Shape is{data.height, data.width, data.channels};
  const Shape wants{wanted.height, wanted.width, wanted.channels};
  if (is == wants) return {};
  return invalid_input("the network '" + network.name + "' takes pictures of " + to_string(wants) +
                       ", and " + data.name + " has " + to_string(is) +
                       (is.last() == wants.last() ? "; --input-size resizes them" : ""));
}

Result<ModelOptions> model_options(const RunConfig& config, const DatasetInfo& data) {
  ModelOptions options = {.height = data.height,
                          .width = data.width,
                          .channels = data.channels,
                          .classes = data.classes,
                          .width_multiplier = config.width,
                          .channel_means = std::vector<int>(data.channels, 0),
                          .loss = config.loss,
                          .label_smoothing = config.label_smoothing};
  if (!config.network) return options;
  const std::string subject = config.network_file + ": the network '" + config.model + "' ";
  MANTISSA_ASSIGN(const ModelOptions wanted, picture_options(*config.network));
  const Status fits = check_pictures(*config.network, data);
  if (!fits.ok()) return invalid_input(config.network_file + ": " + fits.error().message);
  if (data.classes != wanted.classes) {
    return invalid_input(
        subject + "has " + std::to_string(wanted.classes) + " outputs, and " + data.name + " " +
        std::to_string(data.classes) + " classes" +
        (data.classes < wanted.classes
             ? "; --classes " + std::to_string(wanted.classes) + " leaves the others unused"
             : ""));
  }
  return options;
}

Result<Graph> build_network(const RunConfig& config, const ModelOptions& options) {
  if (!config.network) return build_model(config.model, options);
  Graph network = *config.network;
  fill_means(options.channel_means, network);
  return network;
}

Status adapt_classes(const DatasetInfo& data, RunConfig& config) {
  if (!config.adapts_classes || !config.network) return {};
  if (config.network->classes() == data.classes) {
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
