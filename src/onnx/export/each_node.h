// The loop over the nodes of a network that is exported.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "graph/graph.h"
#include "graph/op.h"

namespace mantissa::onnx {

// Exports all nodes but losses by one(context, n), which gives the node's value, into
// context.values, where those of inputs are. The result lists every node that cannot be exported,
// with the reason; nodes behind it are not tried.
template <typename Context, typename One>
std::string export_each(Context& context, const One& one) {
  const Graph& graph = context.graph;
  std::string reasons;
  for (int n = 0; n < std::ssize(graph.nodes); ++n) {
    const Node& node = graph.nodes[n];
    const bool reads_known = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int value) {
      return context.values[static_cast<size_t>(value)].has_value();
    });
    if (graph.is_loss(n) || !reads_known) continue;
    auto exported = one(context, n);
    if (exported.ok()) {
      context.values[static_cast<size_t>(node.outputs[0])] = std::move(*exported);
      continue;
    }
    reasons += (reasons.empty() ? "" : "; ") +
               ("node '" + node.name + "' (" + node.op->name + ") " + exported.error().message);
  }
  return reasons;
}

}  // namespace mantissa::onnx
