#include "train/network.h"

#include <algorithm>
#include <string>

#include "ops/ops.h"

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
  const Shape is{data.height, data.width, data.channels};
  const Shape wants{wanted.height, wanted.width, wanted.channels};
  if (is != wants) {
    return invalid_input(subject + "takes pictures of " + to_string(wants) + ", and " + data.name +
                         " has " + to_string(is) +
                         (is.last() == wants.last() ? "; --input-size resizes them" : ""));
  }
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

namespace {

// The node that decides how many outputs the network has: the producer of the output or, behind
// functions, pools and views of one value without parameters, the node before them. -1: none.
int maker_of_classes(const Graph& network) {
  int producer = network.values[network.outputs[0]].producer;
  while (producer >= 0) {
    const Node& node = network.nodes[producer];
    const auto& items = node.attributes.items();
    const bool has_channels = std::any_of(
        items.begin(), items.end(), [](const auto& item) { return item.first == "channels"; });
    if (has_channels && node.op->parameters != nullptr) return producer;
    if (node.inputs.size() != 1 || !node.parameters.empty()) return -1;
    producer = network.values[node.inputs[0]].producer;
  }
  return -1;
}

// Layers that have as many outputs as the network, in quotes.
std::string candidates(const Graph& network) {
  std::string names;
  for (const Node& node : network.nodes) {
    if (node.op->parameters == nullptr ||
        network.values[node.outputs[0]].shape.last() != network.classes())
      continue;
    names += (names.empty() ? "'" : ", '") + node.name + "'";
  }
  return names.empty() ? "no layer" : names;
}

// Shapes of values and parameters, from the node on.
Status infer_again(Graph& network, int first) {
  for (int n = first; n < static_cast<int>(network.nodes.size()); ++n) {
    const Node& node = network.nodes[n];
    if (network.is_loss(n)) continue;
    std::vector<Shape> inputs;
    for (const int input : node.inputs) inputs.push_back(network.values[input].shape);
    if (node.op->parameters != nullptr) {
      const std::vector<Parameter> wanted = node.op->parameters(node.attributes, inputs);
      for (size_t i = 0; i < wanted.size(); ++i) {
        network.parameters[node.parameters[i]].shape = wanted[i].shape;
      }
    }
    if (node.outputs.size() != 1) continue;
    MANTISSA_ASSIGN(network.values[node.outputs[0]].shape,
                    output_shape(*node.op, node.attributes, inputs));
  }
  return {};
}

}  // namespace

Result<Graph> with_classes(const Graph& network, int64_t classes) {
  Graph changed = network;
  const int maker = maker_of_classes(network);
  const auto refuse = [&](const std::string& why) {
    return invalid_input("network '" + network.name + "': its output cannot have " +
                         std::to_string(classes) + " classes, " + why);
  };
  if (maker < 0) {
    return refuse("since no one layer makes it; " + candidates(network) + " have " +
                  std::to_string(network.classes()) + " outputs");
  }
  Node& node = changed.nodes[maker];
  for (const Node& other : network.nodes) {
    const bool shares =
        other.name != node.name && !other.parameters.empty() && other.parameters == node.parameters;
    if (shares) return refuse("since '" + node.name + "' shares its parameters");
  }
  std::vector<Attributes::Item> items = node.attributes.items();
  for (auto& [name, value] : items) {
    if (name == "channels") value = classes;
  }
  replace_op(node, *node.op, Attributes(std::move(items)));
  MANTISSA_RETURN_IF_ERROR(infer_again(changed, maker));
  MANTISSA_RETURN_IF_ERROR(verify(changed));
  return changed;
}

Status adapt_classes(const DatasetInfo& data, RunConfig& config) {
  if (!config.adapts_classes || !config.network || config.network->classes() == data.classes) {
    return {};
  }
  MANTISSA_ASSIGN(config.network, with_classes(*config.network, data.classes));
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
