#include "graph/sharing.h"

namespace mantissa {
namespace {

// The first node in [begin, end) that uses these parameters, or -1.
int first_user(const Graph& graph, const std::vector<int>& parameters, int begin, int end) {
  for (int n = begin; !parameters.empty() && n < end; ++n) {
    if (graph.nodes[n].parameters == parameters) return n;
  }
  return -1;
}

}  // namespace

int parameter_owner(const Graph& graph, int node) {
  return first_user(graph, graph.nodes[node].parameters, 0, node);
}

bool shares_parameters(const Graph& graph, int node) {
  const auto count = static_cast<int>(graph.nodes.size());
  return parameter_owner(graph, node) >= 0 ||
         first_user(graph, graph.nodes[node].parameters, node + 1, count) >= 0;
}

}  // namespace mantissa
