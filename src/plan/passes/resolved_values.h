// Facts about values that follow from the network's structure: which share their data, and whose
// gradients are wanted.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace mantissa {

struct ResolvedValues {
  // By node.
  std::vector<bool> skipped;  // computes nothing: a view, or a ReLU that its input applies
  // Forward: applies the ReLU that is the only reader of its wide result. Backward only: applies
  // the mask of a ReLU that leaves it to this node, and is a node of its own forward.
  std::vector<bool> fused_relu;
  // By value.
  std::vector<int> canonical;  // whose data it is: a view's source; for a fused ReLU's input,
                               // the ReLU's output
  // By canonical value.
  std::vector<int> producer;         // node whose instruction writes it; -1: an input
  std::vector<bool> wants_gradient;  // something trained comes before it
  std::vector<bool> is_wide;         // int32, the sums of its producer, for losses and outputs
  // By parameter.
  std::vector<int> first_user;  // node; -1: none
  std::vector<int> users;       // how many nodes
};

// Whether the node has a parameter that is trained.
bool trains(const Graph& graph, const Node& node);

ResolvedValues resolve_values(const Graph& graph);

}  // namespace mantissa
