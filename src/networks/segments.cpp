#include "networks/segments.h"

#include <algorithm>

#include "data/batches/example_set.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/sequences/segments.h"

namespace mantissa {
namespace {

// Whether a node reads the starts of segments.
bool reads_starts(const Node& node) {
  return node.op == &ops::kAttention || node.op == &ops::kRotary;
}

size_t starts_input(const Node& node) {
  return node.op == &ops::kAttention ? ops::kStartsOfAttention : ops::kStartsOfRotary;
}

bool knows_positions(const Node& node) {
  return node.op == &ops::kPositionEmbedding || node.op == &ops::kSinusoidalPositions;
}

// Whether a node computes each position from this position alone, or tells segments apart.
Status check_node(const Graph& network, int n) {
  const Node& node = network.nodes[n];
  const std::string name = "pack: '" + node.name + "' ";
  if (knows_positions(node)) {
    return invalid_input(name + "counts positions from the beginning of the sequence, so texts "
                                "cannot lie behind each other in one; only rotary positions begin "
                                "anew: leave --pack out");
  }
  if (reads_starts(node)) {
    if (node.inputs.size() == starts_input(node)) return {};
    return invalid_input(name + "reads lengths: leave --pack out");
  }
  if (node.op->traits.row_by_row || network.is_loss(n)) return {};
  return invalid_input(name + "(" + node.op->name +
                       ") would mix the texts of a sequence: leave --pack out");
}

}  // namespace

Result<Graph> with_segments(Graph network) {
  const auto tokens = std::ranges::find_if(network.inputs, [&](int input) {
    return network.values[input].name == kTokenTensor;
  });
  if (tokens == network.inputs.end()) return invalid_input("pack: the network reads no tokens");
  for (int n = 0; n < std::ssize(network.nodes); ++n) {
    MANTISSA_RETURN_IF_ERROR(check_node(network, n));
  }
  Value starts = network.values[*tokens];
  starts.name = kStartTensor;
  const int value = static_cast<int>(network.values.size());
  network.values.push_back(std::move(starts));
  network.inputs.push_back(value);
  for (Node& node : network.nodes) {
    if (reads_starts(node)) node.inputs.push_back(value);
  }
  // Attention refuses segments across two sequences, and in a grid of positions.
  MANTISSA_RETURN_IF_ERROR(verify(network));
  return network;
}

Graph without_segments(Graph network) {
  const auto is_starts = [&](int value) { return network.values[value].name == kStartTensor; };
  for (Node& node : network.nodes) std::erase_if(node.inputs, is_starts);
  std::erase_if(network.inputs, is_starts);
  return network;
}

}  // namespace mantissa
