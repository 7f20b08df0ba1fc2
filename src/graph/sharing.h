// Nodes that use the parameters of others.
#pragma once

#include "graph/graph.h"

namespace mantissa {

// The first node before this one that uses the same parameters, or -1.
int parameter_owner(const Graph& graph, int node);

// Whether another node uses the node's parameters.
bool shares_parameters(const Graph& graph, int node);

}  // namespace mantissa
