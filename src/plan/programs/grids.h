// The grids of a network: the meaning of each tensor's numbers. A format is a policy that fills
// them in; no later code asks for the format's widths again.
// Source: METHODS sections 0.2, 0.5 and 1; format keys `w`, `a`, `g`, `gw`, `linear`, `bias`,
// `unsigned`, `block` and `ends`.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "numerics/format.h"
#include "plan/programs/value_facts.h"
#include "tensor/grid.h"

namespace mantissa {

struct Grids {
  std::vector<Grid> values;       // as they are written
  std::vector<Grid> activations;  // the same, if they are requantised for layers
  std::vector<Grid> parameters;
  Grid gradient;       // read and written by a layer's backward_input
  Grid wide_gradient;  // between layers, read by backward_weights
};

// By node: whether it is one of the first layers after the inputs, or of the last before the
// outputs. They may have more bits than the others.
std::vector<bool> end_layers(const Graph& graph);

Grids grids(const Graph& graph, const ValueFacts& facts, const Format& format);
inline Grids grids(const Graph& graph, const Format& format) {
  return grids(graph, value_facts(graph), format);
}

// The least bits of the node's results, whatever the format says; 0: it does not ask.
int least_bits(const Node& node);

// Only the grids of parameters.
std::vector<Grid> parameter_grids(const Graph& graph, const Format& format);

}  // namespace mantissa
