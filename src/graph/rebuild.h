// A network built again node by node, with other nodes put before and behind some of them.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace mantissa {

struct GraphChanges {
  // May change the values that a node reads, values of the new network, and its attributes. Null:
  // nothing changes.
  std::function<void(GraphBuilder& builder, int node, std::vector<int>& inputs,
                     Attributes& attributes)>
      before;
  // Given the node's first output, returns the value that its readers get. Null: that output.
  std::function<int(GraphBuilder& builder, int node, int output)> behind;
  // A value of the new network, whose node gives this one its parameters; -1: as it was. Null: all
  // as they were.
  std::function<int(int node)> shares_with = nullptr;
};

// What training is told of a parameter goes to another one: whether it is trained and decays, and
// its rate.
void take_properties(const Parameter& before, Parameter& parameter);

// Nodes and parameters that stay keep their names, and parameters what training is told of them.
Result<Graph> rebuilt(const Graph& network, const GraphChanges& changes);

}  // namespace mantissa
