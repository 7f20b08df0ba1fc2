#include "plan/retention/gradient_rows.h"

#include <algorithm>

#include "ops/gradient_rows.h"
#include "plan/passes/node_operands.h"

namespace mantissa {

std::vector<RowChoice> row_choices(const Graph& graph, const ProgramOptions& options,
                                   const PlanningContext& planning, const MachineProfile& profile,
                                   int64_t least_bytes) {
  // Gradients of 16 bits take two products for each one that values take.
  const double products = options.format.wide_gradient_bits() > 8 ? 2 : 1;
  const ResolvedValues values = resolve_values(graph);
  const NodeOperands nodes(graph, values, options, planning);
  std::vector<RowChoice> choices;
  for (const Node& node : graph.nodes) {
    if (node.parameters.empty() || !nodes.may_compute_rows(node)) continue;
    const Parameter& parameter = graph.parameters[node.parameters[0]];
    RowChoice choice{.parameter = node.parameters[0],
                     .name = parameter.name,
                     .bytes = parameter.shape.count() * element_bytes(DataType::kInt32)};
    if (choice.bytes < least_bytes) continue;
    const RowsAtOnce rows = nodes.rows_at_once(node);
    const int64_t whole = choice.bytes + nodes.memory_of(node).grad_weights.scratch_bytes;
    if (least_bytes > 0 && rows.sum_bytes + rows.scratch_bytes > whole / 2) continue;
    int tier = 0;
    while (choice.bytes > profile.tiers[tier].bytes) ++tier;
    choice.tier_bytes = profile.tiers[tier].bytes;
    choice.keep_ns = (1 + ops::kReadsOfGradient) * static_cast<double>(choice.bytes) *
                     (1 / profile.tiers[tier].bytes_per_ns - 1 / profile.tiers[0].bytes_per_ns);
    choice.compute_ns = (ops::kReadsOfGradient - 1) * products *
                        static_cast<double>(nodes.with_shapes(node, node.op->multiply_adds)) /
                        (profile.dense_macs_per_ns * planning.threads);
    choices.push_back(std::move(choice));
  }
  std::stable_sort(choices.begin(), choices.end(), [](const RowChoice& a, const RowChoice& b) {
    return a.compute_ns - a.keep_ns < b.compute_ns - b.keep_ns;
  });
  return choices;
}

std::vector<bool> by_rows(const Graph& graph, const std::vector<RowChoice>& choices, size_t count) {
  std::vector<bool> result(graph.parameters.size(), false);
  for (size_t i = 0; i < count; ++i) result[choices[i].parameter] = true;
  return result;
}

}  // namespace mantissa
