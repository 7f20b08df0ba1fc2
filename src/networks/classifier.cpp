#include "networks/classifier.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "graph/sharing.h"
#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

// The attribute that says how many channels the node makes or reads. Layers, slices and operators
// of users may have it. Null: there is none.
const int64_t* channels_of(const Node& node) {
  for (const auto& [name, value] : node.attributes.items()) {
    if (name == "channels") return std::get_if<int64_t>(&value);
  }
  return nullptr;
}

int64_t channels_read(const Graph& network, const Node& node) {
  return network.values[node.inputs[0]].shape.last();
}

// A convolution of each channel alone.
bool is_depthwise(const Graph& network, const Node& node) {
  if (node.op != &ops::kConvolution) return false;
  const auto& layer = node.attributes.as<ops::LayerAttributes>();
  return layer.groups == layer.channels && channels_read(network, node) == layer.channels;
}

// A layer whose weights decide how many channels come out.
bool decides_channels(const Graph& network, const Node& node) {
  return node.op->parameters != nullptr && channels_of(node) != nullptr &&
         !is_depthwise(network, node);
}

// The layer that an import adds after an output that no layer makes.
bool is_appended(const Graph& network, const Node& node) {
  if (node.op != &ops::kLinear) return false;
  const auto& layer = node.attributes.as<ops::LayerAttributes>();
  return !layer.bias && layer.channels == channels_read(network, node);
}

// Whether a node passes channels on one by one.
bool passes_channels(const Graph& network, const Node& node) {
  const bool same = node.inputs.size() == 1 && node.outputs.size() == 1 &&
                    network.values[node.outputs[0]].shape.last() == channels_read(network, node);
  return same &&
         (node.parameters.empty() || node.op == &ops::kBatchNorm || is_depthwise(network, node));
}

// The layers that could make the output, the last first: the layer that it comes from, through
// nodes that pass channels on; if that one was appended, also the layer before it.
std::vector<int> makers_of_output(const Graph& network) {
  std::vector<int> makers;
  int n = network.values[network.outputs[0]].producer;
  while (n >= 0) {
    const Node& node = network.nodes[n];
    const bool decides = decides_channels(network, node);
    if (decides) makers.push_back(n);
    if (decides ? !is_appended(network, node) : !passes_channels(network, node)) break;
    n = network.values[node.inputs[0]].producer;
  }
  return makers;
}

std::string quoted(const Graph& network, const std::vector<int>& nodes) {
  std::string names;
  for (const int n : nodes) names += (names.empty() ? "'" : ", '") + network.nodes[n].name + "'";
  return names;
}

// Layers that have as many channels as the network has classes.
std::string candidates(const Graph& network) {
  std::vector<int> nodes;
  for (int n = 0; n < std::ssize(network.nodes); ++n) {
    const Node& node = network.nodes[n];
    if (!decides_channels(network, node)) continue;
    if (*channels_of(node) == network.classes()) nodes.push_back(n);
  }
  return nodes.empty() ? "no layer has" : quoted(network, nodes) + " have";
}

Result<int> layer_named(const Graph& network, const std::string& name) {
  std::vector<int> layers;
  for (int n = 0; n < std::ssize(network.nodes); ++n) {
    if (!decides_channels(network, network.nodes[n])) continue;
    if (network.nodes[n].name == name) return n;
    layers.push_back(n);
  }
  return invalid_input("classifier: '" + name + "' is no layer of '" + network.name +
                       "' whose channels can be changed; it has " + quoted(network, layers));
}

Result<std::vector<int>> layers_to_replace(const Graph& network, int64_t classes,
                                           const std::string& names) {
  std::vector<int> layers;
  for (size_t begin = 0; !names.empty() && begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    MANTISSA_ASSIGN(const int layer, layer_named(network, names.substr(begin, end - begin)));
    layers.push_back(layer);
    begin = end + 1;
  }
  if (layers.empty()) layers = makers_of_output(network);
  const std::string subject =
      "network '" + network.name + "' cannot get " + std::to_string(classes) + " classes: ";
  if (layers.empty()) {
    return invalid_input(subject +
                         "no one layer makes its output; --classifier names those that "
                         "get more or fewer channels; " +
                         candidates(network) + " " + std::to_string(network.classes()));
  }
  if (names.empty() && layers.size() > 1) {
    return invalid_input(subject + "either of the layers " + quoted(network, layers) +
                         " could make its output; --classifier names one");
  }
  for (const int n : layers) {
    if (!shares_parameters(network, n)) continue;
    return invalid_input(subject + "'" + network.nodes[n].name +
                         "' shares its parameters with another layer");
  }
  return layers;
}

void set_whole(Node& node, std::initializer_list<const char*> names, int64_t number) {
  std::vector<Attributes::Item> items = node.attributes.items();
  for (auto& [name, value] : items) {
    if (std::find(names.begin(), names.end(), name) != names.end()) value = number;
  }
  replace_op(node, *node.op, Attributes(std::move(items)));
}

// Shapes of the node's parameters and of its output, for the inputs that it has now.
Status infer_again(Graph& network, const Node& node) {
  std::vector<Shape> inputs;
  for (const int input : node.inputs) inputs.push_back(network.values[input].shape);
  auto types = output_types(*node.op, node.attributes, inputs);
  if (!types.ok()) return invalid_input("'" + node.name + "' " + types.error().message);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    network.values[node.outputs[i]].shape = (*types)[i].shape;
  }
  if (node.op->parameters == nullptr) return {};
  const std::vector<Parameter> wanted = node.op->parameters(node.attributes, inputs);
  for (size_t i = 0; i < wanted.size(); ++i) {
    Parameter& parameter = network.parameters[node.parameters[i]];
    parameter.shape = wanted[i].shape;
    parameter.fan_in = wanted[i].fan_in;
  }
  return {};
}

// Gives the layers `more` more channels, and the nodes after them as many as they read.
Status change_channels(const Graph& before, const std::vector<int>& layers, int64_t more,
                       Graph& network) {
  for (int n = 0; n < std::ssize(network.nodes); ++n) {
    if (network.is_loss(n)) continue;
    Node& node = network.nodes[n];
    const int64_t was = channels_read(before, node), is = channels_read(network, node);
    const int64_t* const channels_now = channels_of(node);
    if (std::find(layers.begin(), layers.end(), n) != layers.end()) {
      const int64_t channels = *channels_of(node) + more;
      if (channels < 1) return invalid_input("'" + node.name + "' would have no channel left");
      set_whole(node, {"channels"}, channels);
    } else if (was != is && is_depthwise(before, before.nodes[n])) {
      set_whole(node, {"channels", "groups"}, is);
    } else if (was != is && channels_now != nullptr && *channels_now == was &&
               (node.parameters.empty() || is_appended(before, before.nodes[n]))) {
      set_whole(node, {"channels"}, is);
    }
    MANTISSA_RETURN_IF_ERROR(infer_again(network, node));
  }
  return {};
}

}  // namespace

Result<Graph> with_classes(const Graph& network, int64_t classes, const std::string& layers) {
  MANTISSA_ASSIGN(const std::vector<int> replaced, layers_to_replace(network, classes, layers));
  Graph changed = network;
  const std::string subject = "network '" + network.name + "' with " + std::to_string(classes) +
                              " classes by " + quoted(network, replaced) + ": ";
  Status status = change_channels(network, replaced, classes - network.classes(), changed);
  if (status.ok()) status = verify(changed);
  if (!status.ok()) return invalid_input(subject + status.error().message);
  if (changed.classes() == classes) return changed;
  return invalid_input(subject + "the output has " + std::to_string(changed.classes()));
}

}  // namespace mantissa
