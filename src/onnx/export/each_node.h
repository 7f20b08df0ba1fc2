// The loop over the nodes of a network that is exported.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace mantissa::onnx {

// Nodes that cannot be exported, in the order of the first one of each reason. Many nodes of one
// operator with one reason make one sentence.
class Refusals {
 public:
  void add(const Node& node, const std::string& reason) {
    std::string text = std::string("(") + node.op->name + ") " + reason;
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const Group& group) { return group.text == text; });
    if (found == groups_.end()) {
      groups_.push_back({std::move(text), {node.name}});
    } else {
      found->names.push_back(node.name);
    }
  }

  // Empty without one.
  std::string text() const {
    std::string all;
    for (const Group& group : groups_) {
      all += (all.empty() ? "node '" : "; node '") + group.names[0] + "' " + group.text;
      const size_t more = group.names.size() - 1;
      if (more == 0) continue;
      all += " (and " + std::to_string(more) + (more == 1 ? " node more:" : " nodes more:");
      for (size_t i = 1; i <= std::min(more, kMostNames); ++i) {
        all += (i > 1 ? ", '" : " '") + group.names[i] + "'";
      }
      all += more > kMostNames ? ", ...)" : ")";
    }
    return all;
  }

 private:
  static constexpr size_t kMostNames = 3;
  struct Group {
    std::string text;  // (operator) reason
    std::vector<std::string> names;
  };
  std::vector<Group> groups_;
};

// Exports all nodes but losses by one(context, n), which gives the node's value, into
// context.values, where those of inputs are. The result lists every node that cannot be exported,
// with the reason; nodes behind it are not tried.
template <typename Context, typename One>
std::string export_each(Context& context, const One& one) {
  const Graph& graph = context.graph;
  Refusals refusals;
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
    refusals.add(node, exported.error().message);
  }
  return refusals.text();
}

}  // namespace mantissa::onnx
