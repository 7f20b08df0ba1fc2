// Networks whose layers read few bits and have weights of few bits: which layers get how many, and
// the network with them (METHODS section 3; docs/quantisation.md).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "quantise/starts.h"

namespace mantissa {

// From 8 bits on, mantissas are the format's, with an exponent that follows the numbers, up to 16
// bits. 32 are floats, of a network that computes in fp32.
constexpr int kWholeBits = 8, kMostBits = 16, kFloatBits = 32;

struct LayerBits {
  int weights = kWholeBits;      // 1 to 8, 16 or 32
  int activations = kWholeBits;  // 1 to 8, 16 or 32, of the layer's input; signed ones 2 or more
};

struct QuantisedBits {
  LayerBits all;
  int ends = kWholeBits;  // at least this many for first and last layers; 0: as all
  // Only one side of all layers, and 8 bits for the other: weights and activations may be quantised
  // in turn, with training between ([0144]).
  bool only_weights = false, only_activations = false;
  // Patterns of names of layers (* for any text), and their bits; the last that fits counts.
  std::vector<std::pair<std::string, int>> patterns;
};

// A layer of a network: a linear or convolution node.
struct QuantisedLayer {
  int node = -1;
  LayerBits bits;       // 8 if there are fewer already, which stay
  LayerBits kept = {};  // these; 8: there are none
  // The batch norm that is the only reader of the result, or -1. It takes out the factor of a scale
  // that is no power of two.
  int norm = -1;
  // Without a norm, a `rescale` after the layer multiplies by the factor: an existing one, or a new
  // one. The network's result gets none, because the loss reads its sums.
  bool rescales = false;
  int rescale = -1;  // an existing one

  bool any_scale() const { return norm >= 0 || rescales; }  // else scales are powers of two
  bool has_few_bits() const { return bits.weights < kWholeBits || bits.activations < kWholeBits; }
};

// All layers of the network, in its order. Errors: a pattern that fits no layer, bits out of range.
Result<std::vector<QuantisedLayer>> quantised_layers(const Graph& network,
                                                     const QuantisedBits& bits);

// The grids of a layer, and how fast they are trained.
struct LayerGrids {
  int weight_exponent = 0;      // of weights of fewer than 8 bits
  bool has_full_range = false;  // of the same: -n to n - 1 (numerics/weight_grid.h)
  int activation_exponent = 0;  // the same of activations
  bool is_signed = false;
  bool has_offset = false;  // of activations: [m, m + beta] in place of [0, beta]
  double weight_rate_factor = 1, range_rate_factor = 1, scale_rate_factor = 1;
};

// The name of the node that quantises a layer's input; its parameters are "LAYER.input.range" and
// "LAYER.input.offset".
std::string quantise_node_name(const std::string& layer);

// Whether rescales follow the ranges, which are trained: then they use the ranges' parameters.
// Otherwise the rest of the ranges is part of their scales.
bool tracks_range(quantise::TrainingMethod method);

// The node whose parameters "scale" and "bias" the layer's rescale uses, in the quantised network,
// or in the network before. It is the rescale itself, or the node that quantises the input.
std::string rescale_owner(const Graph& network, const QuantisedLayer& layer,
                          quantise::TrainingMethod method);
std::string rescale_owner_before(const Graph& network, const QuantisedLayer& layer);

// The network with a `quantise` node before each layer of fewer than 8 bits of activations, weights
// on fixed grids if they have fewer than 8 bits, and rescales. All other nodes, and the names of
// parameters, are as before; biases belong to rescales. `grids` has one row for each layer. An
// error if two nodes share a layer's weights and need different bits.
Result<Graph> quantised_network(const Graph& network, const std::vector<QuantisedLayer>& layers,
                                const std::vector<LayerGrids>& grids,
                                quantise::TrainingMethod method);

}  // namespace mantissa
