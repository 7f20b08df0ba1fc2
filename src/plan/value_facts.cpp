#include "plan/value_facts.h"

#include <algorithm>

#include "numerics/exponent.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

bool is_left_out_when_frozen(const Op& op) {
  return op.frozen != nullptr && op.frozen->traits.view;
}

// Whether the outputs are as wide as the inputs.
bool keeps_bits(const Op& op) {
  return op.traits.keeps_exponent || op.traits.view || is_left_out_when_frozen(op);
}

// Wishes of the readers of a value, known from the last node on.
struct Wishes {
  std::vector<bool> only_activations;  // nothing wider
  std::vector<bool> loses_negatives;   // zeros are made of all that is negative
};

bool all_outputs(const Node& node, const std::vector<bool>& holds) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](int output) { return holds[output]; });
}

Wishes find_wishes(const Graph& graph, ValueFacts& facts) {
  const size_t values = graph.values.size();
  Wishes wishes = {std::vector<bool>(values), std::vector<bool>(values)};
  const auto visit = [&](int value) {
    bool only_activations = true, loses_negatives = !facts.readers[value].empty();
    for (const int reader : facts.readers[value]) {
      const Node& node = graph.nodes[reader];
      const OpTraits& traits = node.op->traits;
      only_activations =
          only_activations && (takes_activations(*node.op) || graph.is_loss(reader) ||
                               (traits.view && all_outputs(node, wishes.only_activations)));
      loses_negatives = loses_negatives &&
                        (traits.clips_negatives || (traits.keeps_sign && keeps_bits(*node.op) &&
                                                    all_outputs(node, wishes.loses_negatives)));
      if (traits.weights_read_input || traits.input_reads_input ||
          (traits.view && facts.read_backward[node.outputs[0]])) {
        facts.read_backward[value] = true;
      }
    }
    wishes.only_activations[value] = only_activations;
    wishes.loses_negatives[value] = loses_negatives;
  };
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for (const int output : node->outputs) visit(output);
  }
  for (const int input : graph.inputs) visit(input);
  return wishes;
}

// The op whose backward pass reads its own output, which is a reader, too; but what is negative
// before a ReLU that leaves its mask to it has a unit of its own.
bool is_read_by_producer(const Graph& graph, const ValueFacts& facts, const Node& producer,
                         int value) {
  const std::vector<int>& readers = facts.readers[value];
  return producer.op->traits.reads_output &&
         !(readers.size() == 1 && graph.nodes[readers[0]].op->traits.leaves_mask_to_producer);
}

int limit_of(const Graph& graph, const ValueFacts& facts, const Node& producer, int value) {
  // An op whose backward pass reads its output is a reader, too.
  const std::vector<int>& readers = facts.readers[value];
  if (producer.op->traits.reads_output || readers.empty()) return kExponentMax;
  int largest = 0;
  for (const int reader : readers) {
    const OpTraits& traits = graph.nodes[reader].op->traits;
    if (traits.clips_above == 0 || !traits.clips_negatives) return kExponentMax;
    largest = std::max(largest, traits.clips_above);
  }
  constexpr int kFraction = 32;
  return exact_exponent(static_cast<uint64_t>(largest) << kFraction, -kFraction, facts.bits[value]);
}

// Widths and limits of a node's outputs. Those of its inputs are known.
void find_widths(const Graph& graph, const Format& format, const Node& node, const Wishes& wishes,
                 std::vector<bool>& never_negative, ValueFacts& facts) {
  const OpTraits& traits = node.op->traits;
  const bool keeps_sign =
      traits.keeps_sign && std::all_of(node.inputs.begin(), node.inputs.end(),
                                       [&](int input) { return never_negative[input]; });
  int widest_input = 0;
  for (const int input : node.inputs) widest_input = std::max(widest_input, facts.bits[input]);
  for (const int output : node.outputs) {
    never_negative[output] = traits.never_negative || keeps_sign;
    const bool is_read = is_read_by_producer(graph, facts, node, output);
    const bool needs_sign = format.sign_bits || (!never_negative[output] &&
                                                 (is_read || !wishes.loses_negatives[output]));
    facts.activation_bits[output] = format.activation_bits + (needs_sign ? 0 : 1);
    const bool is_linear =
        traits.may_leave_wide && format.has_linear_values() && !wishes.only_activations[output];
    facts.bits[output] = keeps_bits(*node.op) ? widest_input
                         : is_linear          ? format.linear_bits
                                              : facts.activation_bits[output];
    facts.exponent_limit[output] = limit_of(graph, facts, node, output);
  }
}

}  // namespace

bool takes_activations(const Op& op) {
  return op.traits.may_leave_wide || is_left_out_when_frozen(op) || &op == &ops::kIdentity;
}

ValueFacts value_facts(const Graph& graph, const Format& format) {
  const size_t values = graph.values.size();
  ValueFacts facts;
  facts.readers = readers_of(graph);
  facts.read_backward.assign(values, false);
  facts.exponent_limit.assign(values, kExponentMax);
  facts.bits.assign(values, format.activation_bits);
  const Wishes wishes = find_wishes(graph, facts);
  std::vector<bool> never_negative(values, false);
  facts.activation_bits.assign(values, format.activation_bits);
  for (const int input : graph.inputs) {
    const bool needs_sign = format.sign_bits || !wishes.loses_negatives[input];
    facts.activation_bits[input] = format.activation_bits + (needs_sign ? 0 : 1);
  }
  for (const Node& node : graph.nodes) {
    find_widths(graph, format, node, wishes, never_negative, facts);
  }
  return facts;
}

}  // namespace mantissa
