#include "onnx/import/rewrite/rewrite.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "onnx/files/node_values.h"
#include "onnx/import/rewrite/spelled_out.h"

namespace mantissa::onnx {
namespace {

// A tensor that owns its numbers.
template <typename T>
TensorData owned(ElementType type, std::vector<T> numbers, std::vector<int64_t> dims) {
  auto kept = std::make_shared<const std::vector<T>>(std::move(numbers));
  return {"", type, std::move(dims), std::as_bytes(std::span(*kept)), kept};
}

std::optional<TensorData> constant_of(const NodeData& node) {
  for (const NodeAttribute& attribute : node.attributes) {
    if (const auto* tensor = std::get_if<TensorData>(&attribute.value)) return *tensor;
    if (const auto* number = std::get_if<float>(&attribute.value)) {
      return owned(ElementType::kFloat, std::vector<float>{*number}, {});
    }
    if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
      return owned(ElementType::kInt64, std::vector<int64_t>{*number}, {});
    }
    if (const auto* numbers = std::get_if<std::vector<float>>(&attribute.value)) {
      return owned(ElementType::kFloat, *numbers, {std::ssize(*numbers)});
    }
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&attribute.value)) {
      return owned(ElementType::kInt64, *numbers, {std::ssize(*numbers)});
    }
  }
  return std::nullopt;
}

class Rewriter {
 public:
  explicit Rewriter(GraphData& graph) : graph_(graph) {}

  void run() {
    for (NodeData& node : graph_.nodes()) {
      if (is_leaky(node) || is_relu(node) || is_divided_clip(node) || is_divided_product(node))
        continue;
      if (move_channel_factor(graph_, node) || join_gathered(graph_, node)) continue;
      if (join_spread_places(graph_, node)) continue;
      if (is_norm(node) || join_gelu(graph_, node) || join_rms_norm(graph_, node)) continue;
      if (!is_swish(node) && !is_mish(node)) is_softplus(node);
    }
    graph_.sweep();
  }

 private:
  double limit(const NodeData& clip, size_t input, const char* attribute) const {
    if (has_attribute(clip, attribute)) return real_of(clip, attribute, NAN);
    return has_input(clip, input) ? graph_.number(clip.inputs[input]) : NAN;
  }
  // x of clip(x + 3, 0, 6); "" if the value is something else.
  std::string clipped(const std::string& value) const {
    const NodeData* clip = graph_.maker(value, "Clip");
    if (clip == nullptr || limit(*clip, 1, "min") != 0 || !graph_.near(limit(*clip, 2, "max"), 6))
      return "";
    const NodeData* add = graph_.maker(clip->inputs[0], "Add");
    return add == nullptr ? "" : graph_.beside(*add, 3);
  }
  // The value that the node divides by 6, or "".
  std::string sixth(const NodeData& node) const {
    if (node.op_type == "Mul") return graph_.beside(node, 1.0 / 6);
    const bool divides = node.op_type == "Div" && node.inputs.size() == 2;
    return divides && graph_.near(graph_.number(node.inputs[1]), 6) ? node.inputs[0] : "";
  }
  // Whether the node is a product of x with f(x): x, or "".
  template <typename Function>
  static std::string own_product(const NodeData& node, const Function& argument_of) {
    if (node.op_type != "Mul" || node.inputs.size() != 2) return "";
    for (const size_t i : {0, 1}) {
      const std::string x = argument_of(node.inputs[i]);
      if (!x.empty() && x == node.inputs[1 - i]) return x;
    }
    return "";
  }
  bool is_divided_clip(NodeData& node) {
    const std::string x = clipped(sixth(node));
    if (x.empty()) return false;
    graph_.become(node, "HardSigmoid", x, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
    return true;
  }
  bool is_divided_product(NodeData& node) {
    const NodeData* product = graph_.maker(sixth(node), "Mul");
    if (product == nullptr) return false;
    const std::string x =
        own_product(*product, [&](const std::string& value) { return clipped(value); });
    if (x.empty()) return false;
    graph_.become(node, "HardSwish", x, {});
    return true;
  }
  bool is_swish(NodeData& node) {
    const std::string x = own_product(node, [&](const std::string& value) {
      const NodeData* gate = graph_.maker(value, "HardSigmoid");
      return gate != nullptr && hard_sigmoid_of(*gate).is_ours() ? gate->inputs[0] : std::string();
    });
    if (!x.empty()) graph_.become(node, "HardSwish", x, {});
    return !x.empty();
  }
  // x * tanh(softplus(x)).
  bool is_mish(NodeData& node) {
    const std::string x = own_product(node, [&](const std::string& value) {
      const NodeData* tanh = graph_.maker(value, "Tanh");
      const NodeData* bent = tanh == nullptr ? nullptr : graph_.maker(tanh->inputs[0], "Softplus");
      return bent == nullptr ? std::string() : bent->inputs[0];
    });
    if (!x.empty()) graph_.become(node, "Mish", x, {});
    return !x.empty();
  }
  // x where x > 20, else softplus(x), as PyTorch exports it: they are as good as equal. Both may be
  // multiplied by a factor, and divided by it afterwards.
  bool is_softplus(NodeData& node) {
    if (node.op_type != "Where" || node.inputs.size() != 3) return false;
    const NodeData* above = graph_.maker(node.inputs[0], "Greater", 2);
    if (above == nullptr || !(graph_.number(above->inputs[1]) >= 15)) return false;
    const std::string bent = node.inputs[2];
    const NodeData* softplus = graph_.maker(bent, "Softplus");
    const NodeData* quotient = graph_.maker(bent, "Div", 2);
    const NodeData* product = graph_.maker(above->inputs[0], "Mul", 2);
    const bool is_plain = softplus != nullptr && node.inputs[1] == above->inputs[0];
    if (!is_plain) {
      if (quotient == nullptr || product == nullptr) return false;
      softplus = graph_.maker(quotient->inputs[0], "Softplus");
      const double factor = graph_.number(quotient->inputs[1]);
      if (graph_.beside(*product, factor) != node.inputs[1]) return false;
    }
    if (softplus == nullptr || softplus->inputs[0] != above->inputs[0]) return false;
    graph_.become(node, "Identity", bent, {});
    return true;
  }
  // (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon), as layer norm is spelled out.
  bool is_norm(NodeData& node) {
    if (node.op_type != "Div" || node.inputs.size() != 2) return false;
    const std::string& centred = node.inputs[0];
    const NodeData* subtract = graph_.maker(centred, "Sub", 2);
    const NodeData* root = graph_.maker(node.inputs[1], "Sqrt");
    const NodeData* sum = root == nullptr ? nullptr : graph_.maker(root->inputs[0], "Add", 2);
    if (subtract == nullptr || sum == nullptr) return false;
    const std::string x = subtract->inputs[0];
    const NodeData* mean = graph_.maker(subtract->inputs[1], "ReduceMean");
    for (const size_t i : {0, 1}) {
      const NodeData* variance = graph_.maker(sum->inputs[i], "ReduceMean");
      if (mean == nullptr || variance == nullptr || mean->inputs[0] != x) continue;
      if (!(graph_.number(sum->inputs[1 - i]) > 0) ||
          !graph_.is_square(variance->inputs[0], centred))
        continue;
      const auto epsilon = static_cast<float>(graph_.number(sum->inputs[1 - i]));
      const std::vector<int64_t> axes = graph_.axes(*mean);
      if (is_over(*mean, {2, 3})) {
        graph_.become(node, "InstanceNormalization", x, {{"epsilon", epsilon}});
      } else if (is_over(*mean, {1, 2, 3})) {
        graph_.become(node, "GroupNormalization", x,
                      {{"epsilon", epsilon}, {"num_groups", int64_t{1}}});
      } else {
        // A norm over several other axes is refused by its axis. One without numbers is over its
        // axis alone (operators/norms.cpp).
        graph_.become(node, "LayerNormalization", x,
                      {{"epsilon", epsilon}, {"axis", axes.size() == 1 ? axes[0] : int64_t{0}}});
      }
      return true;
    }
    return false;
  }
  // Whether a mean is over these axes of an image.
  bool is_over(const NodeData& mean, const std::vector<int64_t>& wanted) const {
    std::vector<int64_t> axes = graph_.axes(mean);
    for (int64_t& axis : axes) axis += axis < 0 ? 4 : 0;
    std::sort(axes.begin(), axes.end());
    return axes == wanted;
  }

  // max(x, 0), as PyTorch exports clamp(min=0).
  bool is_relu(NodeData& node) {
    if (node.op_type != "Max" || node.inputs.size() != 2) return false;
    for (const size_t i : {0, 1}) {
      if (graph_.number(node.inputs[i]) != 0) continue;
      const std::string x = node.inputs[1 - i];
      graph_.become(node, "Relu", x, {});
      return true;
    }
    return false;
  }

  bool is_leaky(NodeData& node) {
    if (node.op_type != "Max" || node.inputs.size() != 2) return false;
    for (const size_t i : {0, 1}) {
      const NodeData* product = graph_.maker(node.inputs[i], "Mul");
      if (product == nullptr || product->inputs.size() != 2) continue;
      for (const size_t j : {0, 1}) {
        const double slope = graph_.number(product->inputs[j]);
        if (product->inputs[1 - j] != node.inputs[1 - i] || !(slope >= 0 && slope <= 1)) continue;
        const std::string x = node.inputs[1 - i];
        graph_.become(node, "LeakyRelu", x, {{"alpha", static_cast<float>(slope)}});
        return true;
      }
    }
    return false;
  }

  SpelledOut graph_;
};

}  // namespace

void lift_constants(GraphData& graph) {
  std::map<std::string, TensorData> constants;
  for (const TensorData& tensor : graph.initialisers) constants[tensor.name] = tensor;
  std::erase_if(graph.nodes, [&](const NodeData& node) {
    if (node.outputs.size() != 1) return false;
    std::optional<TensorData> constant;
    if (node.op_type == "Constant") constant = constant_of(node);
    if (node.op_type == "Identity" && node.inputs.size() == 1) {
      const auto found = constants.find(node.inputs[0]);
      if (found != constants.end()) constant = found->second;
    }
    if (!constant) return false;
    if (node.op_type == "Constant") constant->name = node.outputs[0];
    constants[node.outputs[0]] = *constant;
    constant->name = node.outputs[0];
    graph.initialisers.push_back(std::move(*constant));
    return true;
  });
}

namespace {

struct Range {
  int64_t first, end;
};

// The part with this number of a SplitToSequence with parts of these sizes: one size for all, or
// one for each. Nothing if there is no such part, or if a number is out of range.
std::optional<Range> part_of(const TensorData& sizes, const TensorData& number) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto parts = wholes_of(sizes), which = wholes_of(number);
  if (!parts.ok() || !which.ok() || which->size() != 1 || parts->empty()) return std::nullopt;
  const int64_t index = which->front();
  const bool is_one = sizes.dims.empty();
  if (index < 0 || index >= (is_one ? kMost : std::ssize(*parts))) return std::nullopt;
  for (const int64_t size : *parts) {
    if (size < 1 || size >= kMost) return std::nullopt;
  }
  if (is_one) return Range{index * parts->front(), (index + 1) * parts->front()};
  const int64_t first = std::accumulate(parts->begin(), parts->begin() + index, int64_t{0});
  return Range{first, first + (*parts)[index]};
}

}  // namespace

void take_sequences_apart(GraphData& graph) {
  std::map<std::string, TensorData> constants;
  std::map<std::string, NodeData> sequences;
  for (const TensorData& tensor : graph.initialisers) constants[tensor.name] = tensor;
  for (const NodeData& node : graph.nodes) {
    const bool has_sizes =
        node.inputs.size() == 2 && constants.contains(node.inputs[1]) && node.outputs.size() == 1;
    if (node.op_type == "SplitToSequence" && has_sizes) sequences[node.outputs[0]] = node;
  }
  for (NodeData& node : graph.nodes) {
    if (node.op_type != "SequenceAt" || node.inputs.size() != 2 || node.outputs.size() != 1) {
      continue;
    }
    const auto sequence = sequences.find(node.inputs[0]);
    const auto number = constants.find(node.inputs[1]);
    if (sequence == sequences.end() || number == constants.end()) continue;
    const std::vector<std::string>& split = sequence->second.inputs;
    const auto range = part_of(constants[split[1]], number->second);
    if (!range) continue;
    node.op_type = "Slice";
    node.inputs = {split[0]};
    for (const auto& [what, at] : {std::pair{"first", range->first},
                                   {"end", range->end},
                                   {"axis", whole_of(sequence->second, "axis", 0)}}) {
      TensorData& tensor = graph.initialisers.emplace_back(
          owned(ElementType::kInt64, std::vector<int64_t>{at}, {1}));
      tensor.name = node.outputs[0] + " " + what;
      node.inputs.push_back(tensor.name);
    }
  }
}

void join_spelled_out_functions(GraphData& graph) { Rewriter(graph).run(); }

HardSigmoid hard_sigmoid_of(const NodeData& node) {
  return {real_of(node, "alpha", 0.2), real_of(node, "beta", 0.5)};
}

bool HardSigmoid::is_ours() const {
  return std::abs(6 * alpha - 1) < 1e-5 && std::abs(beta - 0.5) < 1e-6;
}

}  // namespace mantissa::onnx
