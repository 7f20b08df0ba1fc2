#include "plan/programs/value_facts.h"

#include <algorithm>

#include "ops/ops.h"

namespace mantissa {
namespace {

bool is_left_out_when_frozen(const Op& op) { return op.frozen != nullptr && is_view(*op.frozen); }

bool all_outputs(const Node& node, const std::vector<bool>& holds) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](int output) { return holds[output]; });
}

// From the last node to the first: wishes of the readers. By value, whether all readers take
// negative numbers for zeros.
std::vector<bool> visit_readers(const Graph& graph, ValueFacts& facts) {
  std::vector<bool> loses_negatives(graph.values.size(), false);
  const auto visit = [&](int value) {
    bool only_activations = true, loses = !facts.readers[value].empty();
    for (const int reader : facts.readers[value]) {
      const Node& node = graph.nodes[reader];
      const OpTraits& traits = node.op->traits;
      only_activations =
          only_activations && (takes_activations(*node.op) || graph.is_loss(reader) ||
                               (is_view(*node.op) && all_outputs(node, facts.only_activations)));
      loses =
          loses && (traits.clips.negatives || (traits.sign == Sign::kKept && keeps_bits(*node.op) &&
                                               all_outputs(node, loses_negatives)));
      if (reads_backward(*node.op, Role::kInput) ||
          (is_view(*node.op) && facts.read_backward[node.outputs[0]])) {
        facts.read_backward[value] = true;
      }
    }
    facts.only_activations[value] = only_activations;
    loses_negatives[value] = loses;
  };
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for (const int output : node->outputs) visit(output);
  }
  for (const int input : graph.inputs) visit(input);
  return loses_negatives;
}

// An op whose backward pass reads its own output is a reader, too. But negative values before a
// ReLU that leaves its mask to the op have a unit of their own.
bool is_read_by_producer(const Graph& graph, const ValueFacts& facts, const Node& producer,
                         int value) {
  const std::vector<int>& readers = facts.readers[value];
  return reads_backward(*producer.op, Role::kOutput) &&
         !(readers.size() == 1 && leaves_mask_to_producer(*graph.nodes[readers[0]].op));
}

int clips_above(const Graph& graph, const ValueFacts& facts, const Node& producer, int value) {
  // An op whose backward pass reads its output is a reader, too.
  if (reads_backward(*producer.op, Role::kOutput)) return 0;
  int largest = 0;
  for (const int reader : facts.readers[value]) {
    const Clips& clips = graph.nodes[reader].op->traits.clips;
    if (clips.above == 0 || !clips.negatives) return 0;
    largest = std::max(largest, clips.above);
  }
  return largest;
}

}  // namespace

bool keeps_bits(const Op& op) {
  return passes_mantissas(op) || is_view(op) || is_left_out_when_frozen(op);
}

bool takes_activations(const Op& op) {
  return may_leave_wide(op) || is_left_out_when_frozen(op) || &op == &ops::kIdentity ||
         &op == &ops::kAttention || &op == &ops::kQuantise;
}

ValueFacts value_facts(const Graph& graph) {
  const size_t values = graph.values.size();
  ValueFacts facts;
  facts.readers = readers_of(graph);
  facts.read_backward.assign(values, false);
  facts.only_activations.assign(values, false);
  facts.clips_above.assign(values, 0);
  const std::vector<bool> loses_negatives = visit_readers(graph, facts);
  facts.needs_sign.assign(values, true);
  for (const int input : graph.inputs) facts.needs_sign[input] = !loses_negatives[input];
  std::vector<bool> never_negative(values, false);
  for (const Node& node : graph.nodes) {
    const Sign sign = node.op->traits.sign;
    const bool keeps_sign =
        sign == Sign::kKept && std::all_of(node.inputs.begin(), node.inputs.end(),
                                           [&](int input) { return never_negative[input]; });
    for (const int output : node.outputs) {
      never_negative[output] = sign == Sign::kNeverNegative || keeps_sign;
      const bool is_read = is_read_by_producer(graph, facts, node, output);
      facts.needs_sign[output] = !never_negative[output] && (is_read || !loses_negatives[output]);
      facts.clips_above[output] = clips_above(graph, facts, node, output);
    }
  }
  return facts;
}

}  // namespace mantissa
