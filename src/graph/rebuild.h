// A network built again node by node, with other nodes put before and after some of them.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace mantissa {

struct GraphChanges {
  // May change a node's inputs (values of the new network) and its attributes. Null: nothing
  // changes.
  std::function<void(GraphBuilder& builder, int node, std::vector<int>& inputs,
                     Attributes& attributes)>
      before = nullptr;
  // Given the node's first output, returns the value that its readers get. Null: that output.
  std::function<int(GraphBuilder& builder, int node, int output)> behind = nullptr;
  // Returns the value of the new network whose node gives this one its parameters; -1: as it was.
  // Null: all as they were.
  std::function<int(int node)> shares_with = nullptr;
  // Leaves losses out, and inputs that nothing else reads.
  bool drops_losses = false;
};

// Copies to another parameter how it is trained: whether it is trained, whether it decays, its
// rate.
void take_properties(const Parameter& before, Parameter& parameter);

// Nodes and parameters that stay keep their names. These parameters are trained as before, unless
// their node never trains them.
Result<Graph> rebuilt(const Graph& network, const GraphChanges& changes);

}  // namespace mantissa
