// Networks whose layers read few bits and have weights of few bits: which layers get how many, and
// the network with them (METHODS section 3; docs/quantisation.md).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// 8: as in block floating point, with an exponent that follows the numbers.
constexpr int kWholeBits = 8;

struct LayerBits {
  int weights = kWholeBits;      // 2 to 8
  int activations = kWholeBits;  // 1 to 8, of the layer's input; signed ones 2 to 8
};

struct QuantisedBits {
  LayerBits all;
  int ends = kWholeBits;  // at least so many for the first and the last layers; 0: as all
  // Patterns of names of layers (* for any text), and their bits; the last that fits counts.
  std::vector<std::pair<std::string, int>> patterns;
};

// A layer of a network: a linear or convolution node.
struct QuantisedLayer {
  int node = -1;
  LayerBits bits;  // 8 where there are fewer already, which stay
  // The batch norm that alone reads the result, or -1. It takes out the factor of a scale that is
  // no power of two; without one scales are powers of two.
  int norm = -1;
};

// All layers of the network, in its order. Errors: a pattern that fits no layer, bits out of range.
Result<std::vector<QuantisedLayer>> quantised_layers(const Graph& network,
                                                     const QuantisedBits& bits);

// How ranges of activations are trained.
enum class RangeLearning : uint8_t {
  kNone,  // not at all, as WRPN has it
  kClip,  // by what they clip, as PACT has it
  kLsq,   // by the rounding within them, too
};

// The grids of a layer, and how fast they are trained.
struct LayerGrids {
  int weight_exponent = 0;      // of weights of fewer than 8 bits
  int activation_exponent = 0;  // the same of activations
  bool is_signed = false;
  double weight_rate_factor = 1, range_rate_factor = 1;
};

// The name of the node that quantises a layer's input; its parameter is "LAYER.input.range".
std::string quantise_node_name(const std::string& layer);

// The network with a `quantise` node before each layer of fewer than 8 bits of activations, and
// weights on grids that stay where they have fewer than 8 bits. All other nodes, and the names of
// parameters, are as before. `grids` has one row for each layer. An error where two nodes share a
// layer's weights and need other bits.
Result<Graph> quantised_network(const Graph& network, const std::vector<QuantisedLayer>& layers,
                                const std::vector<LayerGrids>& grids, RangeLearning learning);

}  // namespace mantissa
