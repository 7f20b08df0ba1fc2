// The graph of a frozen network in the tie-free form: all that rounds is a layer, a sum or the
// input (docs/decisions/0138-a-form-without-ties.md).
#pragma once

#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

struct TieFreeGraph {
  Graph graph;
  std::vector<int> origin;    // by node: the node of the rescaled graph that it stands for
  std::vector<int> value_of;  // by value of the rescaled graph: its mantissas of 8 bits, or -1
};

// From the graph of FrozenForm::kRescaled. All layers are rescaled ones, means are depthwise
// convolutions with equal weights, and results that were wide are widened mantissas of 8 bits. An
// error names the first node that has no such form.
Result<TieFreeGraph> tie_free_graph(const Graph& rescaled);

}  // namespace mantissa
