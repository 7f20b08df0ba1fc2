#include "plan/resolved_values.h"

#include <numeric>

#include "graph/op.h"

namespace mantissa {
namespace {

// Into the node, if it can, the ReLU that is the only reader of its output; or into its backward
// pass alone.
void fuse_relu(const Graph& graph, int n, ResolvedValues& values) {
  const Node& node = graph.nodes[n];
  const std::vector<int> readers = graph.readers(node.output);
  if (readers.size() != 1) return;
  const OpTraits& reader = graph.nodes[readers[0]].op->traits;
  if (reader.leaves_mask_to_producer) values.fused_relu[n] = true;
  if (!node.op->traits.applies_relu || !reader.is_relu || node.output == graph.logits) return;
  values.fused_relu[n] = true;
  values.skipped[readers[0]] = true;
  values.canonical[node.output] = graph.nodes[readers[0]].output;
}

bool trains(const Graph& graph, const Node& node) {
  for (const int parameter : node.parameters) {
    if (is_trained(graph.parameters[parameter].role)) return true;
  }
  return false;
}

}  // namespace

ResolvedValues resolve_values(const Graph& graph) {
  ResolvedValues values;
  values.skipped.assign(graph.nodes.size(), false);
  values.fused_relu.assign(graph.nodes.size(), false);
  values.wants_gradient.assign(graph.values.size(), false);
  values.canonical.resize(graph.values.size());
  std::iota(values.canonical.begin(), values.canonical.end(), 0);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    int& output = values.canonical[node.output];
    if (node.op->traits.view) {
      values.skipped[n] = true;
      output = values.canonical[node.inputs[0]];
    }
    fuse_relu(graph, n, values);
    bool wants = trains(graph, node);
    for (const int input : node.inputs) {
      wants = wants || values.wants_gradient[values.canonical[input]];
    }
    values.wants_gradient[output] = wants;
  }
  return values;
}

}  // namespace mantissa
