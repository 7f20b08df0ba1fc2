#include "plan/programs/grids.h"

#include <algorithm>

#include "graph/op.h"

namespace mantissa {
std::vector<bool> end_layers(const Graph& graph) {
  const size_t nodes = graph.nodes.size();
  std::vector<bool> has_layer_before(graph.values.size(), false), is_end(nodes, false);
  for (size_t n = 0; n < nodes; ++n) {
    const Node& node = graph.nodes[n];
    const bool behind = std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [&](int input) { return has_layer_before[input]; });
    is_end[n] = is_layer(*node.op) && !behind;
    for (const int output : node.outputs) {
      has_layer_before[output] = behind || is_layer(*node.op);
    }
  }
  std::vector<bool> has_layer_behind(graph.values.size(), false);
  for (size_t n = nodes; n-- > 0;) {
    const Node& node = graph.nodes[n];
    const bool before = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](int output) { return has_layer_behind[output]; });
    if (is_layer(*node.op) && !before) is_end[n] = true;
    for (const int input : node.inputs) {
      if (before || is_layer(*node.op)) has_layer_behind[input] = true;
    }
  }
  return is_end;
}

namespace {

Grid grid_of(const Format& format, int bits) {
  return {.scaling = format.is_float() ? Scaling::kReal : Scaling::kExponent, .bits = bits};
}

// By node; none if the format treats all layers alike.
std::vector<bool> wide_layers(const Graph& graph, const Format& format) {
  if (format.end_bits == 0) return std::vector<bool>(graph.nodes.size(), false);
  return end_layers(graph);
}

// By value: whether such a layer reads it, perhaps through ops that keep its bits.
std::vector<bool> read_by_end_layers(const Graph& graph, const Format& format) {
  const std::vector<bool> is_end = wide_layers(graph, format);
  std::vector<bool> read(graph.values.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const bool passes_on =
        keeps_bits(*node.op) && std::any_of(node.outputs.begin(), node.outputs.end(),
                                            [&](int output) { return read[output]; });
    for (const int input : node.inputs) {
      if (is_end[n] || passes_on) read[input] = true;
    }
  }
  return read;
}

int limit_of(int clips_above, int bits) {
  constexpr int kFraction = 32;
  if (clips_above == 0) return kExponentMax;
  return exact_exponent(static_cast<uint64_t>(clips_above) << kFraction, -kFraction, bits);
}

}  // namespace

int least_bits(const Node& node) {
  if (node.op->bits == nullptr || has_own_grid(*node.op)) return 0;
  return node.op->bits(node.attributes);
}

std::vector<Grid> parameter_grids(const Graph& graph, const Format& format) {
  const std::vector<bool> is_wide = wide_layers(graph, format);
  std::vector<Grid> grids;
  for (const Parameter& parameter : graph.parameters) {
    const bool is_weights = parameter.storage == Storage::kWeights;
    grids.push_back(grid_of(format, is_weights                            ? format.weight_bits
                                    : parameter.storage == Storage::kBias ? format.bias_bits
                                                                          : 16));
    if (is_weights && !format.tensor_blocks) grids.back().blocks = Blocks::kChannel;
    constexpr int kExpandedBits = 8;
    if (parameter.storage == Storage::kBlocks) {
      grids.back().bits = kExpandedBits;
      grids.back().blocks = Blocks::kChannel;
    }
    if (parameter.grid.bits > 0 && grids.back().scaling == Scaling::kExponent) {
      grids.back() = {.bits = parameter.grid.mantissa_bits(), .weights = parameter.grid};
    }
  }
  for (const Node& node : graph.nodes) {
    constexpr int kRescaledBits = 8;  // freezing multiplies weights of fewer bits
    if (node.op->traits.narrowing != Narrowing::kFrozenLayer || format.is_float()) continue;
    grids[node.parameters[0]].bits = kRescaledBits;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_wide[n]) continue;
    for (const int parameter : graph.nodes[n].parameters) {
      Grid& grid = grids[parameter];
      const bool is_weights = graph.parameters[parameter].storage == Storage::kWeights;
      if (is_weights && grid.weights.bits == 0) grid.bits = std::max(grid.bits, format.end_bits);
    }
  }
  return grids;
}

Grids grids(const Graph& graph, const ValueFacts& facts, const Format& format) {
  const size_t values = graph.values.size();
  Grids grids;
  grids.parameters = parameter_grids(graph, format);
  grids.gradient = grid_of(format, format.gradient_bits);
  grids.wide_gradient = grid_of(format, format.wide_gradient_bits());
  const std::vector<bool> at_end = read_by_end_layers(graph, format);
  grids.values.assign(values, grid_of(format, format.activation_bits));
  for (Grid& grid : grids.values) {
    if (!format.tensor_values) grid.blocks = Blocks::kRow;
  }
  for (size_t value = 0; value < values; ++value) {
    const bool needs_sign = format.sign_bits || facts.needs_sign[value];
    const int bits = format.activation_bits + (needs_sign ? 0 : 1);
    grids.activations.push_back(
        grid_of(format, at_end[value] ? std::max(bits, format.end_bits) : bits));
  }
  for (const Node& node : graph.nodes) {
    int widest_input = 0;
    for (const int input : node.inputs) {
      widest_input = std::max(widest_input, grids.values[input].bits);
    }
    for (const int output : node.outputs) {
      const bool is_linear =
          may_leave_wide(*node.op) && format.has_linear_values() && !facts.only_activations[output];
      Grid& grid = grids.values[output];
      if (has_own_grid(*node.op)) {
        grid.bits = node.op->bits(node.attributes);
        grids.activations[output].bits = grid.bits;
        continue;
      }
      grid.bits = keeps_bits(*node.op) ? widest_input
                  : is_linear          ? format.linear_bits
                                       : grids.activations[output].bits;
      grid.bits = std::max(grid.bits, least_bits(node));
      grid.exponent_limit = limit_of(facts.clips_above[output], grid.bits);
    }
  }
  return grids;
}

}  // namespace mantissa
