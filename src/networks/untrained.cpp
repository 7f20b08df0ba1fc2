#include "networks/untrained.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/wildcard.h"

namespace mantissa {
namespace {

// The first names of parameters that can be left untrained.
std::string some_names(const Graph& graph) {
  constexpr int kMost = 12;
  std::string text;
  int count = 0;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.storage == Storage::kReal || ++count > kMost) continue;
    text += (text.empty() ? "" : ", ") + parameter.name;
  }
  return text + (count > kMost ? " and " + std::to_string(count - kMost) + " more" : "");
}

Status check_nodes(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const Parameter *trained = nullptr, *frozen = nullptr;
    for (const int index : node.parameters) {
      const Parameter& parameter = graph.parameters[index];
      if (parameter.storage != Storage::kReal) (parameter.trained ? trained : frozen) = &parameter;
    }
    if (trained == nullptr || frozen == nullptr) continue;
    return invalid_input("freeze: '" + frozen->name + "' fits and '" + trained->name +
                         "' does not; a node trains all of its parameters or none: " + node.name +
                         ".*");
  }
  return {};
}

}  // namespace

Status leave_untrained(const std::string& patterns, Graph& graph) {
  if (patterns.empty()) return {};
  for (const std::string_view pattern : split_patterns(patterns)) {
    bool found = false;
    for (Parameter& parameter : graph.parameters) {
      if (parameter.storage == Storage::kReal || !matches_wildcard(pattern, parameter.name))
        continue;
      parameter.trained = false;
      found = true;
    }
    if (found) continue;
    return invalid_input("freeze: '" + std::string(pattern) + "' fits no parameter of " +
                         graph.name + "; it has " + some_names(graph));
  }
  MANTISSA_RETURN_IF_ERROR(check_nodes(graph));
  if (graph.trained_parameters() > 0) return {};
  return invalid_input("freeze: '" + patterns + "' leaves nothing of " + graph.name +
                       " to train; leave out its last layers");
}

}  // namespace mantissa
