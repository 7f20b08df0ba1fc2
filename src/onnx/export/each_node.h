// The loop over the nodes of a network that is exported.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "graph/graph.h"
#include "graph/op.h"
#include "onnx/names_by_text.h"

namespace mantissa::onnx {

constexpr size_t kMostRefusedNames = 3;  // after the first

// "node 'a' (linear) REASON (and 2 nodes more: 'b', 'c')": a sentence for each operator and reason.
inline std::string refusal_text(const NamesByText& refused) {
  std::string all;
  for (const auto& [text, names] : refused) {
    all += (all.empty() ? "node '" : "; node '") + names[0] + "' " + text;
    const size_t more = names.size() - 1;
    if (more == 0) continue;
    all += " (and " + std::to_string(more) + (more == 1 ? " node more:" : " nodes more:");
    for (size_t i = 1; i <= std::min(more, kMostRefusedNames); ++i) {
      all += (i > 1 ? ", '" : " '") + names[i] + "'";
    }
    all += more > kMostRefusedNames ? ", ...)" : ")";
  }
  return all;
}

// Exports all nodes but losses by one(context, n), which gives the node's value, into
// context.values, where the values of inputs already are. The result lists every node that cannot
// be exported, with the reason; nodes after it are not tried.
template <typename Context, typename One>
std::string export_each(Context& context, const One& one) {
  const Graph& graph = context.graph;
  NamesByText refused;  // by operator and reason
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
    add_name(refused, std::string("(") + node.op->name + ") " + exported.error().message,
             node.name);
  }
  return refusal_text(refused);
}

}  // namespace mantissa::onnx
