#include "plan/value_bits.h"

#include <algorithm>
#include <map>

#include "numerics/exponent.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

bool is_left_out_when_frozen(const Op& op) {
  return op.frozen != nullptr && op.frozen->traits.view;
}

// Whether the op wants activations: it multiplies mantissas as they are, or is left out when
// frozen.
bool takes_activations(const Op& op) {
  return op.traits.may_leave_wide || is_left_out_when_frozen(op) || &op == &ops::kIdentity;
}

// Whether the output is as wide as the inputs.
bool keeps_bits(const Op& op) {
  return op.traits.keeps_exponent || op.traits.view || is_left_out_when_frozen(op);
}

bool only_activations_wanted(const Graph& graph, int value) {
  const std::vector<int> readers = graph.readers(value);
  return std::all_of(readers.begin(), readers.end(), [&](int reader) {
    const Node& node = graph.nodes[reader];
    if (takes_activations(*node.op)) return true;
    return node.op->traits.view && only_activations_wanted(graph, node.output);
  });
}

bool is_never_negative(const Graph& graph, int value) {
  const int producer = graph.values[value].producer;
  if (producer < 0) return false;
  const Node& node = graph.nodes[producer];
  if (node.op->traits.never_negative) return true;
  return node.op->traits.keeps_sign &&
         std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](int input) { return is_never_negative(graph, input); });
}

// Whether what reads the value, perhaps through others that pass it on, makes zeros of all that is
// negative.
bool loses_negatives(const Graph& graph, int value) {
  const std::vector<int> readers = graph.readers(value);
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](int reader) {
    const Node& node = graph.nodes[reader];
    return node.op->traits.clips_negatives || (node.op->traits.keeps_sign && keeps_bits(*node.op) &&
                                               loses_negatives(graph, node.output));
  });
}

// Bits of the value where it is requantised for activations.
int activation_bits(const Graph& graph, const Format& format, int value) {
  // An op whose backward pass reads its output is a reader, too; but what is negative before a ReLU
  // that leaves its mask to it has a unit of its own.
  const int producer = graph.values[value].producer;
  const std::vector<int> readers = graph.readers(value);
  const bool read_by_producer =
      producer >= 0 && graph.nodes[producer].op->traits.reads_output &&
      !(readers.size() == 1 && graph.nodes[readers[0]].op->traits.leaves_mask_to_producer);
  const bool needs_sign =
      format.sign_bits ||
      (!is_never_negative(graph, value) && (read_by_producer || !loses_negatives(graph, value)));
  return format.activation_bits + (needs_sign ? 0 : 1);
}

// Whether the backward pass of a reader, other than one node, reads the value.
bool is_read_backward(const Graph& graph, int value, const Node* other_than = nullptr) {
  const std::vector<int> readers = graph.readers(value);
  return std::any_of(readers.begin(), readers.end(), [&](int reader) {
    const Node& node = graph.nodes[reader];
    const OpTraits& traits = node.op->traits;
    return &node != other_than && (traits.weights_read_input || traits.input_reads_input ||
                                   (traits.view && is_read_backward(graph, node.output)));
  });
}

// The ReLU that alone reads a value, which is not the network's result; null: there is none.
Node* only_relu(Graph& graph, int value) {
  const std::vector<int> readers = graph.readers(value);
  if (value == graph.logits || readers.size() != 1) return nullptr;
  Node& reader = graph.nodes[readers[0]];
  return reader.op == &ops::kRelu ? &reader : nullptr;
}

// Whether keeping a batch norm's output in place of its input saves something.
bool inverting_saves(const Graph& graph, const Format& format, const Node& norm, bool relu_behind) {
  const int input = norm.inputs[0], output = norm.output;
  if (is_read_backward(graph, output)) return true;
  if (is_read_backward(graph, input, &norm)) return false;
  constexpr int kByte = 8;
  const bool is_smaller =
      value_bits(graph, format, output) <= kByte && value_bits(graph, format, input) > kByte;
  return relu_behind || is_smaller;
}

Graph with_inverted_batch_norms(Graph graph, const Format& format) {
  // What is kept of the input besides should cost little where the output only takes its place.
  constexpr int64_t kRoomBehindRelu = 32;
  if (format.is_float() || format.keeps_norm_inputs) return graph;
  for (Node& node : graph.nodes) {
    if (node.op != &ops::kBatchNorm || node.attributes.is_set("zero_scale")) continue;
    Node* const relu = only_relu(graph, node.output);
    if (!inverting_saves(graph, format, node, relu != nullptr)) continue;
    replace_op(node, ops::kBatchNormInverted,
               relu == nullptr ? Attributes() : Attributes{{"room", kRoomBehindRelu}});
    if (relu != nullptr) replace_op(*relu, ops::kNormRelu);
  }
  return graph;
}

Graph with_requantised_inputs(const Graph& graph, const Format& format) {
  if (format.is_float() || !format.has_linear_values()) return graph;
  Graph result = graph;
  result.nodes.clear();
  std::map<int, int> requantised;  // values to their activations
  const auto activations_of = [&](int value) {
    const auto [found, is_new] =
        requantised.try_emplace(value, static_cast<int>(result.values.size()));
    if (is_new) {
      const std::string name = graph.values[value].name + ".activations";
      result.values.push_back({name, graph.values[value].shape});
      result.nodes.push_back({name, &ops::kRequantise, {}, {value}, found->second, {}});
    }
    return found->second;
  };
  for (Node node : graph.nodes) {
    for (int& input : node.inputs) {
      if (!takes_activations(*node.op)) continue;
      const int wanted = activation_bits(graph, format, input);
      if (value_bits(graph, format, input) > wanted) input = activations_of(input);
    }
    result.nodes.push_back(std::move(node));
  }
  for (int n = 0; n < static_cast<int>(result.nodes.size()); ++n) {
    result.values[result.nodes[n].output].producer = n;
  }
  return result;
}

}  // namespace

int value_bits(const Graph& graph, const Format& format, int value) {
  const int producer = graph.values[value].producer;
  if (producer < 0) return format.activation_bits;
  const Node& node = graph.nodes[producer];
  if (keeps_bits(*node.op)) {
    int bits = 0;
    for (const int input : node.inputs) bits = std::max(bits, value_bits(graph, format, input));
    return bits;
  }
  const bool may_be_wide = node.op->traits.may_leave_wide && format.has_linear_values();
  if (may_be_wide && !only_activations_wanted(graph, value)) return format.linear_bits;
  return activation_bits(graph, format, value);
}

int exponent_limit(const Graph& graph, const Format& format, int value) {
  const int producer = graph.values[value].producer;
  const std::vector<int> readers = graph.readers(value);
  // An op whose backward pass reads its output is a reader, too.
  if (producer < 0 || graph.nodes[producer].op->traits.reads_output || readers.empty()) {
    return kExponentMax;
  }
  int largest = 0;
  for (const int reader : readers) {
    const OpTraits& traits = graph.nodes[reader].op->traits;
    if (traits.clips_above == 0 || !traits.clips_negatives) return kExponentMax;
    largest = std::max(largest, traits.clips_above);
  }
  constexpr int kFraction = 32;
  return exact_exponent(static_cast<uint64_t>(largest) << kFraction, -kFraction,
                        value_bits(graph, format, value));
}

Graph in_format(const Graph& graph, const Format& format) {
  return with_requantised_inputs(with_inverted_batch_norms(graph, format), format);
}

Status check_linear_values(const Graph& graph, const Format& format) {
  if (format.is_float() || !format.has_linear_values()) return {};
  for (const Node& node : graph.nodes) {
    if (!node.op->traits.may_leave_wide) continue;
    if (value_bits(graph, format, node.output) > activation_bits(graph, format, node.output)) {
      return {};
    }
  }
  return invalid_input(graph.name + ": linear=" + std::to_string(format.linear_bits) +
                       " changes nothing: all results of linear and convolution have as many bits "
                       "without it, or only linear and convolution read them; leave it out");
}

Status check_inversion(const Graph& graph, const Format& format) {
  if (format.is_float() || format.keeps_norm_inputs) return {};
  for (const Node& node : graph.nodes) {
    if (node.op == &ops::kBatchNormInverted) return {};
  }
  return invalid_input(graph.name +
                       ": inversion=yes changes nothing: there is no batch norm, or none with a "
                       "ReLU, another function or a convolution behind it; leave it out");
}

}  // namespace mantissa
