#include "start/quantised_network.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/wildcard.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "graph/sharing.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "plan/programs/grids.h"

namespace mantissa {
namespace {

constexpr int kFewestBits = 1;

// The node of that operator that alone reads the layer's result, or -1.
int only_reader(const Graph& network, const std::vector<std::vector<int>>& readers,
                const Node& layer, const Op& op) {
  const int output = layer.outputs[0];
  const bool only = readers[output].size() == 1 && !network.is_output(output);
  if (!only) return -1;
  const int reader = readers[output][0];
  return network.nodes[reader].op == &op ? reader : -1;
}

// The batch norm that is the only reader of the layer's result and takes factors out of it, or -1.
// None if another node has the same bias or the same statistics, which change with the factors.
int own_norm(const Graph& network, const std::vector<std::vector<int>>& readers, int layer) {
  const Node& node = network.nodes[layer];
  const int norm = only_reader(network, readers, node, ops::kBatchNorm);
  const bool shares_bias = node.parameters.size() > 1 && shares_parameters(network, layer);
  return norm < 0 || shares_bias || shares_parameters(network, norm) ? -1 : norm;
}

Status check_bits(const std::string& subject, const char* what, int bits) {
  if ((bits >= kFewestBits && bits <= kWholeBits) || bits == kMostBits || bits == kFloatBits) {
    return {};
  }
  return invalid_input(subject + ": " + what + " of " + std::to_string(bits) +
                       " bits; 1 to 8, 16 and, in fp32, 32 are possible");
}

Status check_bits(const std::string& subject, const LayerBits& bits) {
  MANTISSA_RETURN_IF_ERROR(check_bits(subject, "weights", bits.weights));
  return check_bits(subject, "activations", bits.activations);
}

std::string layer_names(const Graph& network, const std::vector<QuantisedLayer>& layers) {
  constexpr size_t kMost = 12;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, layers.size()); ++i) {
    text += (i == 0 ? "" : ", ") + network.nodes[layers[i].node].name;
  }
  return text +
         (layers.size() > kMost ? " and " + std::to_string(layers.size() - kMost) + " more" : "");
}

Attributes with(const Attributes& attributes, const std::string& name, AttributeValue value) {
  std::vector<Attributes::Item> items;
  for (const Attributes::Item& item : attributes.items()) {
    if (item.first != name) items.push_back(item);
  }
  items.emplace_back(name, std::move(value));
  return Attributes(std::move(items));
}

// How `quantise` passes gradients on, and learns its range, in each method.
const char* learns(quantise::TrainingMethod method) {
  switch (method) {
    case quantise::TrainingMethod::kLsq:
    case quantise::TrainingMethod::kLsqPlus:
      return "lsq";
    case quantise::TrainingMethod::kPact:
      return "pact";
    case quantise::TrainingMethod::kHalfWaveGaussian:
      return "half-wave";
    case quantise::TrainingMethod::kWrpn:
    case quantise::TrainingMethod::kDorefa:
    case quantise::TrainingMethod::kUniform:
      break;
  }
  return "clip";
}

// Whether the parameters of a layer's rescale belong to it, or to the node that quantises the
// layer's input, and no other node uses them.
bool is_of_the_layer(const Graph& network, const Node& layer, int rescale) {
  const std::vector<int>& parameters = network.nodes[rescale].parameters;
  const auto users = std::count_if(
      network.nodes.begin(), network.nodes.end(),
      [&](const Node& node) { return !parameters.empty() && node.parameters == parameters; });
  const int owner = parameter_owner(network, rescale);
  if (owner < 0) return users == 1;
  return users == 2 && network.nodes[owner].op == &ops::kQuantise &&
         network.values[layer.inputs[0]].producer == owner;
}

std::string rescale_node_name(const std::string& layer) { return layer + ".rescale"; }

// The changes of the layers, and of the network's parameters with them.
class LayerChanges {
 public:
  LayerChanges(const Graph& network, const std::vector<QuantisedLayer>& layers,
               const std::vector<LayerGrids>& grids, quantise::TrainingMethod method)
      : network_(network), layers_(layers), grids_(grids), method_(method) {
    for (size_t i = 0; i < layers.size(); ++i) {
      layer_of_[layers[i].node] = i;
      if (layers[i].rescale >= 0) layer_of_rescale_[layers[i].rescale] = i;
    }
  }

  void prepare(GraphBuilder& builder, int n, std::vector<int>& inputs, Attributes& attributes) {
    if (const auto layer = layer_of_rescale_.find(n); layer != layer_of_rescale_.end()) {
      if (shared_.contains(layer->second)) {
        attributes = rescale_attributes(network_.nodes[n], layer->second);
      }
      return;
    }
    const auto found = layer_of_.find(n);
    if (found == layer_of_.end()) return;
    prepare_layer(builder, network_.nodes[n], found->second, inputs, attributes);
  }

  // The value of the node that shares its parameters with this one, an existing rescale; -1: none.
  int shares_with(int n) const {
    const auto layer = layer_of_rescale_.find(n);
    if (layer == layer_of_rescale_.end()) return -1;
    const auto shared = shared_.find(layer->second);
    return shared == shared_.end() ? -1 : shared->second;
  }

  int rescaled(GraphBuilder& builder, int n, int output) {
    const auto found = layer_of_.find(n);
    if (found == layer_of_.end() || !adds_rescale(layers_[found->second])) return output;
    const std::string name = rescale_node_name(network_.nodes[n].name);
    const Attributes attributes = rescale_attributes(network_.nodes[n], found->second);
    const auto shared = shared_.find(found->second);
    return shared == shared_.end()
               ? builder.add(ops::kRescale, name, {output}, attributes)
               : builder.add_sharing(shared->second, ops::kRescale, name, {output}, attributes);
  }

  void set_properties(Graph& graph) const {
    for (Parameter& parameter : graph.parameters) {
      if (const auto found = renamed_.find(parameter.name); found != renamed_.end()) {
        take_properties(parameter_before(found->second), parameter);
      }
      if (untrained_.contains(parameter.name)) parameter.trained = false;
      if (const auto found = rate_factors_.find(parameter.name); found != rate_factors_.end()) {
        parameter.rate_factor *= found->second;
      }
    }
  }

 private:
  static bool adds_rescale(const QuantisedLayer& layer) {
    return layer.rescales && layer.rescale < 0 && layer.has_few_bits();
  }

  const Parameter& parameter_before(const std::string& name) const {
    return *std::find_if(network_.parameters.begin(), network_.parameters.end(),
                         [&](const Parameter& p) { return p.name == name; });
  }

  // The attributes of a layer's rescale. `node`: the layer, or an existing rescale.
  Attributes rescale_attributes(const Node& node, size_t layer) const {
    std::vector<Attributes::Item> items;
    for (const Attributes::Item& item : node.attributes.items()) {
      if (item.first == "least_bits") items.push_back(item);
    }
    if (shared_.contains(layer)) {
      const LayerGrids& grids = grids_[layer];
      items.emplace_back("bits", int64_t{layers_[layer].bits.activations});
      items.emplace_back("exponent", int64_t{grids.activation_exponent});
      items.emplace_back("signed", int64_t{grids.is_signed ? 1 : 0});
      items.emplace_back("offset", int64_t{grids.has_offset ? 1 : 0});
    }
    return Attributes(std::move(items));
  }

  void prepare_layer(GraphBuilder& builder, const Node& node, size_t layer,
                     std::vector<int>& inputs, Attributes& attributes) {
    const LayerBits& bits = layers_[layer].bits;
    const LayerGrids& grids = grids_[layer];
    if (bits.weights < kWholeBits) {
      attributes = with(attributes, "weight_bits", int64_t{bits.weights});
      attributes = with(attributes, "weight_exponent", int64_t{grids.weight_exponent});
      if (grids.has_full_range) attributes = with(attributes, "weight_range", "full");
      if (quantise::has_tangents(method_)) attributes = with(attributes, "weight_tanh", int64_t{1});
      if (quantise::stops_gradients(method_)) {
        attributes = with(attributes, "weight_stops", int64_t{1});
      }
      rate_factors_[node.name + ".weights"] = grids.weight_rate_factor;
    }
    if (adds_rescale(layers_[layer])) attributes = with(attributes, "bias", int64_t{0});
    if (layers_[layer].rescales && layers_[layer].has_few_bits()) {
      const std::string owner = rescale_owner(network_, layers_[layer], method_);
      rate_factors_[owner + ".scale"] = grids.scale_rate_factor;
      if (layers_[layer].rescale >= 0) {
        const std::string before = rescale_owner_before(network_, layers_[layer]);
        for (const char* own : {".scale", ".bias"}) renamed_[owner + own] = before + own;
      }
    }
    if (bits.activations >= kWholeBits) return;
    const std::string name = quantise_node_name(node.name);
    const int64_t channels = network_.values[node.outputs[0]].shape.last();
    const bool shares = layers_[layer].rescales && tracks_range(method_);
    inputs[0] = builder.add(ops::kQuantise, name, {inputs[0]},
                            {{"bits", int64_t{bits.activations}},
                             {"exponent", int64_t{grids.activation_exponent}},
                             {"signed", int64_t{grids.is_signed ? 1 : 0}},
                             {"learns", learns(method_)},
                             {"offset", int64_t{grids.has_offset ? 1 : 0}},
                             {"channels", shares ? channels : int64_t{0}}});
    if (shares) shared_[layer] = inputs[0];
    const quantise::TrainedValues trains = quantise::trained_values(method_);
    for (const auto& [own, is_trained] :
         {std::pair{".range", trains.activation_scale}, {".offset", trains.activation_offset}}) {
      // If scales are powers of two, nothing takes a change of the range out.
      if (!is_trained || !layers_[layer].any_scale()) untrained_.insert(name + own);
      rate_factors_[name + own] = grids.range_rate_factor;
    }
  }

  const Graph& network_;
  const std::vector<QuantisedLayer>& layers_;
  const std::vector<LayerGrids>& grids_;
  quantise::TrainingMethod method_;
  std::map<int, size_t> layer_of_, layer_of_rescale_;  // by node
  // By layer: its quantised input, if a rescale uses the parameters of that node.
  std::map<size_t, int> shared_;
  std::map<std::string, double> rate_factors_;
  std::map<std::string, std::string> renamed_;  // parameters of rescales to their names before
  std::set<std::string> untrained_;
};

}  // namespace

std::string quantise_node_name(const std::string& layer) { return layer + ".input"; }

bool tracks_range(quantise::TrainingMethod method) {
  return quantise::trained_values(method).activation_scale;
}

std::string rescale_owner(const Graph& network, const QuantisedLayer& layer,
                          quantise::TrainingMethod method) {
  const std::string& name = network.nodes[layer.node].name;
  if (layer.bits.activations < kWholeBits && tracks_range(method)) return quantise_node_name(name);
  return layer.rescale >= 0 ? rescale_owner_before(network, layer) : rescale_node_name(name);
}

std::string rescale_owner_before(const Graph& network, const QuantisedLayer& layer) {
  const int owner = parameter_owner(network, layer.rescale);
  return network.nodes[owner >= 0 ? owner : layer.rescale].name;
}

Result<std::vector<QuantisedLayer>> quantised_layers(const Graph& network,
                                                     const QuantisedBits& bits) {
  MANTISSA_RETURN_IF_ERROR(network.check_no_blocks("quantize takes trained numbers"));
  const auto readers = readers_of(network);
  const std::vector<bool> is_end = end_layers(network);
  std::vector<QuantisedLayer> layers;
  for (size_t n = 0; n < network.nodes.size(); ++n) {
    const Node& node = network.nodes[n];
    if (!is_layer(*node.op)) continue;
    QuantisedLayer layer{.node = static_cast<int>(n),
                         .bits = bits.all,
                         .norm = own_norm(network, readers, static_cast<int>(n))};
    layer.rescale = only_reader(network, readers, node, ops::kRescale);
    if (layer.rescale >= 0 && !is_of_the_layer(network, node, layer.rescale)) {
      return invalid_input("node '" + network.nodes[layer.rescale].name +
                           "' (rescale): shares its parameters with another node than the one that "
                           "quantises the input of " +
                           node.name);
    }
    layer.rescales = layer.norm < 0 && !network.is_output(node.outputs[0]) &&
                     !shares_parameters(network, layer.node);
    if (is_end[n]) {
      layer.bits.weights = std::max(layer.bits.weights, bits.ends);
      layer.bits.activations = std::max(layer.bits.activations, bits.ends);
    }
    layers.push_back(layer);
  }
  if (layers.empty()) {
    return invalid_input(network.name + " has no linear and no convolution layer to quantise");
  }
  for (const auto& [pattern, count] : bits.patterns) {
    bool fits = false;
    for (QuantisedLayer& layer : layers) {
      if (!matches_wildcard(pattern, network.nodes[layer.node].name)) continue;
      // A side in float stays so.
      layer.bits = {bits.all.weights == kFloatBits ? kFloatBits : count,
                    bits.all.activations == kFloatBits ? kFloatBits : count};
      fits = true;
    }
    if (fits) continue;
    return invalid_input("bits: '" + pattern + "' fits no layer of " + network.name + "; it has " +
                         layer_names(network, layers));
  }
  for (QuantisedLayer& layer : layers) {
    const Node& node = network.nodes[layer.node];
    MANTISSA_RETURN_IF_ERROR(check_bits(node.name, layer.bits));
    if (bits.only_weights) layer.bits.activations = kWholeBits;
    if (bits.only_activations) layer.bits.weights = kWholeBits;
    const int producer = network.values[node.inputs[0]].producer;
    const bool reads_few = producer >= 0 && network.nodes[producer].op == &ops::kQuantise;
    if (reads_few) {
      layer.bits.activations = kWholeBits;
      layer.kept.activations =
          network.nodes[producer].attributes.as<ops::QuantiseAttributes>().bits;
    }
    if (const int few = node.attributes.as<ops::LayerAttributes>().weight_bits; few > 0) {
      layer.bits.weights = kWholeBits;
      layer.kept.weights = few;
    }
    if (shares_parameters(network, layer.node) && layer.bits.weights < kWholeBits) {
      return invalid_input(node.name +
                           ": shares its weights with another node; such weights stay "
                           "at 8 bits: --bits " +
                           node.name + "=8");
    }
  }
  return layers;
}

Result<Graph> quantised_network(const Graph& network, const std::vector<QuantisedLayer>& layers,
                                const std::vector<LayerGrids>& grids,
                                quantise::TrainingMethod method) {
  LayerChanges changes(network, layers, grids, method);
  MANTISSA_ASSIGN(
      Graph graph,
      rebuilt(
          network,
          {.before =
               [&](GraphBuilder& builder, int node, std::vector<int>& inputs,
                   Attributes& attributes) { changes.prepare(builder, node, inputs, attributes); },
           .behind = [&](GraphBuilder& builder, int node,
                         int output) { return changes.rescaled(builder, node, output); },
           .shares_with = [&](int node) { return changes.shares_with(node); }}));
  changes.set_properties(graph);
  return graph;
}

}  // namespace mantissa
