#include "train/quantised_network.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/wildcard.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "graph/sharing.h"
#include "ops/ops.h"
#include "plan/grids.h"

namespace mantissa {
namespace {

constexpr int kFewestWeightBits = 2, kFewestActivationBits = 1;

int norm_of(const Graph& network, const std::vector<std::vector<int>>& readers, const Node& layer) {
  const int output = layer.outputs[0];
  const bool only = readers[output].size() == 1 && !network.is_output(output);
  if (!only) return -1;
  const int reader = readers[output][0];
  return network.nodes[reader].op == &ops::kBatchNorm ? reader : -1;
}

Status check_bits(const std::string& subject, const char* what, int bits, int fewest) {
  if ((bits >= fewest && bits <= kWholeBits) || bits == kMostBits || bits == kFloatBits) return {};
  return invalid_input(subject + ": " + what + " of " + std::to_string(bits) + " bits; " +
                       std::to_string(fewest) + " to 8, 16 and, in fp32, 32 are possible");
}

Status check_bits(const std::string& subject, const LayerBits& bits) {
  MANTISSA_RETURN_IF_ERROR(check_bits(subject, "weights", bits.weights, kFewestWeightBits));
  return check_bits(subject, "activations", bits.activations, kFewestActivationBits);
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

Attributes with(const Attributes& attributes, const std::string& name, int64_t value) {
  std::vector<Attributes::Item> items;
  for (const Attributes::Item& item : attributes.items()) {
    if (item.first != name) items.push_back(item);
  }
  items.emplace_back(name, value);
  return Attributes(std::move(items));
}

// How `quantise` passes gradients on, and learns its range, in each method.
const char* learns(quantize::TrainingMethod method) {
  switch (method) {
    case quantize::TrainingMethod::kLsq:
    case quantize::TrainingMethod::kLsqPlus:
      return "lsq";
    case quantize::TrainingMethod::kPact:
      return "pact";
    case quantize::TrainingMethod::kHalfWaveGaussian:
      return "half-wave";
    case quantize::TrainingMethod::kWrpn:
    case quantize::TrainingMethod::kDorefa:
    case quantize::TrainingMethod::kUniform:
      break;
  }
  return "clip";
}

// The changes of the layers, and of the network's parameters with them.
class LayerChanges {
 public:
  LayerChanges(const Graph& network, const std::vector<QuantisedLayer>& layers,
               const std::vector<LayerGrids>& grids, quantize::TrainingMethod method)
      : network_(network), layers_(layers), grids_(grids), method_(method) {
    for (size_t i = 0; i < layers.size(); ++i) layer_of_[layers[i].node] = i;
  }

  void prepare(GraphBuilder& builder, int n, std::vector<int>& inputs, Attributes& attributes) {
    const auto found = layer_of_.find(n);
    if (found == layer_of_.end()) return;
    prepare_layer(builder, network_.nodes[n], found->second, inputs, attributes);
  }

  void set_properties(Graph& graph) const {
    for (Parameter& parameter : graph.parameters) {
      if (untrained_.contains(parameter.name)) parameter.trained = false;
      if (const auto found = rate_factors_.find(parameter.name); found != rate_factors_.end()) {
        parameter.rate_factor *= found->second;
      }
    }
  }

 private:
  void prepare_layer(GraphBuilder& builder, const Node& node, size_t layer,
                     std::vector<int>& inputs, Attributes& attributes) {
    const LayerBits& bits = layers_[layer].bits;
    const LayerGrids& grids = grids_[layer];
    if (bits.weights < kWholeBits) {
      attributes = with(with(attributes, "weight_bits", bits.weights), "weight_exponent",
                        grids.weight_exponent);
      if (quantize::has_tangents(method_)) attributes = with(attributes, "weight_tanh", 1);
      rate_factors_[node.name + ".weights"] = grids.weight_rate_factor;
    }
    if (bits.activations >= kWholeBits) return;
    const std::string name = quantise_node_name(node.name);
    inputs[0] = builder.add(ops::kQuantise, name, {inputs[0]},
                            {{"bits", int64_t{bits.activations}},
                             {"exponent", int64_t{grids.activation_exponent}},
                             {"signed", int64_t{grids.is_signed ? 1 : 0}},
                             {"learns", learns(method_)},
                             {"offset", int64_t{grids.has_offset ? 1 : 0}}});
    const quantize::TrainedValues trains = quantize::trained_values(method_);
    for (const auto& [own, is_trained] :
         {std::pair{".range", trains.activation_scale}, {".offset", trains.activation_offset}}) {
      // Without a batch norm nothing takes a change of the range out.
      if (!is_trained || layers_[layer].norm < 0) untrained_.insert(name + own);
      rate_factors_[name + own] = grids.range_rate_factor;
    }
  }

  const Graph& network_;
  const std::vector<QuantisedLayer>& layers_;
  const std::vector<LayerGrids>& grids_;
  quantize::TrainingMethod method_;
  std::map<int, size_t> layer_of_;
  std::map<std::string, double> rate_factors_;
  std::set<std::string> untrained_;
};

}  // namespace

std::string quantise_node_name(const std::string& layer) { return layer + ".input"; }

Result<std::vector<QuantisedLayer>> quantised_layers(const Graph& network,
                                                     const QuantisedBits& bits) {
  const auto readers = readers_of(network);
  const std::vector<bool> is_end = end_layers(network);
  std::vector<QuantisedLayer> layers;
  for (size_t n = 0; n < network.nodes.size(); ++n) {
    const Node& node = network.nodes[n];
    if (!node.op->traits.is_layer) continue;
    QuantisedLayer layer{static_cast<int>(n), bits.all, norm_of(network, readers, node)};
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
      layer.bits = {count, count};
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
    if (reads_few) layer.bits.activations = kWholeBits;
    if (node.attributes.whole("weight_bits") > 0) layer.bits.weights = kWholeBits;
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
                                quantize::TrainingMethod method) {
  LayerChanges changes(network, layers, grids, method);
  MANTISSA_ASSIGN(Graph graph,
                  rebuilt(network, {.before =
                                        [&](GraphBuilder& builder, int node,
                                            std::vector<int>& inputs, Attributes& attributes) {
                                          changes.prepare(builder, node, inputs, attributes);
                                        },
                                    .behind = nullptr}));
  changes.set_properties(graph);
  return graph;
}

}  // namespace mantissa
