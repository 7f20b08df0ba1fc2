#include "plan/programs/value_facts.h"

#include <algorithm>

#include "ops/ops.h"

namespace mantissa {
namespace {

bool is_left_out_when_frozen(const Op& op) {
  return op.frozen != nullptr && op.frozen->traits.view;
}

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
                               (traits.view && all_outputs(node, facts.only_activations)));
      loses = loses && (traits.clips_negatives || (traits.keeps_sign && keeps_bits(*node.op) &&
                                                   all_outputs(node, loses_negatives)));
      if (traits.weights_read_input || traits.input_reads_input ||
          (traits.view && facts.read_backward[node.outputs[0]])) {
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
  return producer.op->traits.reads_output &&
         !(readers.size() == 1 && graph.nodes[readers[0]].op->traits.leaves_mask_to_producer);
}

int clips_above(const Graph& graph, const ValueFacts& facts, const Node& producer, int value) {
  // An op whose backward pass reads its output is a reader, too.
  if (producer.op->traits.reads_output) return 0;
  int largest = 0;
  for (const int reader : facts.readers[value]) {
    const OpTraits& traits = graph.nodes[reader].op->traits;
    if (traits.clips_above == 0 || !traits.clips_negatives) return 0;
    largest = std::max(largest, traits.clips_above);
  }
  return largest;
}

}  // namespace

bool keeps_bits(const Op& op) {
  return op.traits.keeps_exponent || op.traits.view || is_left_out_when_frozen(op);
}

bool takes_activations(const Op& op) {
  return op.traits.may_leave_wide || is_left_out_when_frozen(op) || &op == &ops::kIdentity ||
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
    const OpTraits& traits = node.op->traits;
    const bool keeps_sign =
        traits.keeps_sign && std::all_of(node.inputs.begin(), node.inputs.end(),
                                         [&](int input) { return never_negative[input]; });
    for (const int output : node.outputs) {
      never_negative[output] = traits.never_negative || keeps_sign;
      const bool is_read = is_read_by_producer(graph, facts, node, output);
      facts.needs_sign[output] = !never_negative[output] && (is_read || !loses_negatives[output]);
      facts.clips_above[output] = clips_above(graph, facts, node, output);
    }
  }
  return facts;
}

}  // namespace mantissa
