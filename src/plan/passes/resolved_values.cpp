#include "plan/passes/resolved_values.h"

#include <algorithm>
#include <numeric>

#include "graph/op.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

// Fuses into the node, if possible, the ReLU that is the only reader of its output; or fuses it
// into its backward pass alone.
void fuse_relu(const Graph& graph, const std::vector<int>& readers, int n, ResolvedValues& values) {
  const Node& node = graph.nodes[n];
  const int output = node.outputs[0];
  if (readers.size() != 1) return;
  const Node& reader = graph.nodes[readers[0]];
  if (leaves_mask_to_producer(*reader.op)) values.fused_relu[n] = true;
  if (!node.op->traits.applies_relu || reader.op != &ops::kRelu || graph.is_output(output)) return;
  values.fused_relu[n] = true;
  values.skipped[readers[0]] = true;
  values.canonical[output] = graph.nodes[readers[0]].outputs[0];
}

// Whether the value's only readers, if any, are losses, and its producer leaves its sums to them.
bool stays_wide(const Graph& graph, const std::vector<int>& readers, int value) {
  const int producer = graph.values[value].producer;
  if (producer < 0 || !may_leave_wide(*graph.nodes[producer].op)) return false;
  return std::all_of(readers.begin(), readers.end(),
                     [&](int reader) { return graph.is_loss(reader); }) &&
         (!readers.empty() || graph.is_output(value));
}

}  // namespace

bool trains(const Graph& graph, const Node& node) {
  return std::any_of(node.parameters.begin(), node.parameters.end(),
                     [&](int parameter) { return graph.parameters[parameter].trained; });
}

ResolvedValues resolve_values(const Graph& graph) {
  const std::vector<std::vector<int>> readers = readers_of(graph);
  ResolvedValues values;
  values.skipped.assign(graph.nodes.size(), false);
  values.fused_relu.assign(graph.nodes.size(), false);
  values.wants_gradient.assign(graph.values.size(), false);
  values.is_wide.assign(graph.values.size(), false);
  values.producer.assign(graph.values.size(), -1);
  values.first_user.assign(graph.parameters.size(), -1);
  values.users.assign(graph.parameters.size(), 0);
  values.canonical.resize(graph.values.size());
  std::iota(values.canonical.begin(), values.canonical.end(), 0);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    if (is_view(*node.op)) {
      values.skipped[n] = true;
      values.canonical[node.outputs[0]] = values.canonical[node.inputs[0]];
    }
    if (node.outputs.size() == 1) fuse_relu(graph, readers[node.outputs[0]], n, values);
    for (const int output : node.outputs) {
      if (!values.skipped[n]) values.producer[values.canonical[output]] = n;
    }
    bool wants = trains(graph, node);
    for (const int input : node.inputs) {
      wants = wants || values.wants_gradient[values.canonical[input]];
    }
    for (const int output : node.outputs) {
      if (graph.values[output].element == Element::kMantissa) {
        values.wants_gradient[values.canonical[output]] = wants;
      }
    }
    for (const int parameter : node.parameters) {
      if (values.first_user[parameter] < 0) values.first_user[parameter] = n;
      ++values.users[parameter];
    }
  }
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    if (stays_wide(graph, readers[value], value)) values.is_wide[values.canonical[value]] = true;
  }
  return values;
}

}  // namespace mantissa
