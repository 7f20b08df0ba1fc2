// Operators on whole numbers become operators on real ones, with pairs of QuantizeLinear and
// DequantizeLinear where the model has a scale: QLinearConv and its like, and the nodes that
// quantise a layer's input as it comes (DynamicQuantizeLinear, MatMulInteger). The nodes that are
// replaced stay, and nobody reads them any more.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "onnx/evaluate/operators/quantised/quantised_forms.h"
#include "onnx/files/node_values.h"
#include "onnx/import/rewrite/rewrite.h"

namespace mantissa::onnx {
namespace {

bool is_own(const NodeData& node, std::string_view op_type) {
  return node.domain.empty() && node.op_type == op_type;
}
bool is_microsoft(const NodeData& node, std::string_view op_type) {
  return node.domain == "com.microsoft" && node.op_type == op_type;
}

// Operators that choose among numbers and compute none.
bool is_mover(const NodeData& node) {
  constexpr std::array<std::string_view, 10> kMovers = {
      "DepthToSpace", "Flatten", "Gather",  "Identity",  "MaxPool",
      "Reshape",      "Slice",   "Squeeze", "Transpose", "Unsqueeze"};
  return node.domain.empty() && node.outputs.size() == 1 && !node.inputs.empty() &&
         std::find(kMovers.begin(), kMovers.end(), node.op_type) != kMovers.end();
}

// The operator set of nodes that are added: scales may lie along an axis from it on.
constexpr int64_t kOpset = 13;

class RealNumbers {
 public:
  explicit RealNumbers(GraphData& graph) : graph_(graph) {
    for (const TensorData& tensor : graph.initialisers) {
      constants_[tensor.name] = &tensor;
      names_.insert(tensor.name);
    }
    for (const NodeData& node : graph.nodes) {
      names_.insert(node.outputs.begin(), node.outputs.end());
    }
  }

  std::vector<std::string> run() {
    for (NodeData& node : graph_.nodes) {
      if (!take(node)) nodes_.push_back(std::move(node));
    }
    graph_.nodes = std::move(nodes_);
    std::vector<std::string> notes;
    if (quantised_ > 0) {
      notes.push_back(std::to_string(quantised_) +
                      " operators on quantised numbers, such as QLinearConv, are operators on real "
                      "numbers here, between grids of the same scales");
    }
    if (dynamic_ > 0) {
      notes.push_back(std::to_string(dynamic_) +
                      " layers that quantise their input as it comes (DynamicQuantizeLinear) are "
                      "layers of real numbers here, with the model's quantised weights");
    }
    return notes;
  }

 private:
  // The scale of a value that DynamicQuantizeLinear made, times a constant; "": times 1.
  struct Scale {
    std::string quantised, factor;
  };

  bool is_constant(const std::string& name) const { return constants_.contains(name); }

  std::string fresh(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 2; !names_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
    return name;
  }

  // Adds a node; its result has the name that is given, or a new one.
  std::string add(const std::string& op_type, const std::string& name,
                  std::vector<std::string> inputs, std::vector<NodeAttribute> attributes = {},
                  const std::string& result = "", int64_t opset = 0) {
    while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
    NodeData node;
    node.name = name;
    node.op_type = op_type;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    node.outputs = {result.empty() ? fresh(name + "/" + op_type) : result};
    node.opset = opset;
    nodes_.push_back(node);
    return node.outputs[0];
  }

  std::string dequantise(const std::string& value, const std::string& scale,
                         const std::string& zero, int64_t axis) {
    return add("DequantizeLinear", value + "/real", {value, scale, zero}, {{"axis", axis, {}}}, "",
               kOpset);
  }

  // The real numbers of a value with its scale and zero point behind it; "": there are none.
  std::string real(const NodeData& node, size_t i, int64_t axis) {
    if (i + 1 >= node.inputs.size()) return "";
    const std::string& value = node.inputs[i];
    const auto found = real_.find(value);
    if (found != real_.end()) return found->second;
    if (!is_constant(value) && !pairs_.contains(value)) return "";
    const std::string zero = i + 2 < node.inputs.size() ? node.inputs[i + 2] : "";
    const std::string name = dequantise(value, node.inputs[i + 1], zero, axis);
    if (!is_constant(value)) real_[value] = name;
    return name;
  }

  // A result of real numbers as the whole numbers that the node makes.
  void quantise(const NodeData& node, const std::string& value, size_t scale) {
    const std::string zero = scale + 1 < node.inputs.size() ? node.inputs[scale + 1] : "";
    add("QuantizeLinear", node.outputs[0] + "/quantise", {value, node.inputs[scale], zero}, {},
        node.outputs[0], kOpset);
    real_[node.outputs[0]] = dequantise(node.outputs[0], node.inputs[scale], zero, 0);
    zeros_[node.outputs[0]] = zero;
    ++quantised_;
  }

  bool take(const NodeData& node) {
    if (node.outputs.empty()) return false;
    if (is_own(node, "QuantizeLinear") && node.inputs.size() > 1) {
      pairs_[node.outputs[0]] = node;
      zeros_[node.outputs[0]] = input_or_nothing(node, 2);
    }
    if (is_own(node, "DequantizeLinear")) return take_dequantise(node);
    if (is_own(node, "QLinearConv")) return take_layer(node, "Conv", 0, 8);
    if (is_own(node, "QLinearMatMul")) return take_layer(node, "MatMul", -1, 8);
    if (is_microsoft(node, "QGemm")) return take_gemm(node);
    if (!quantised_form(node).values.empty()) return take_form(node);
    return take_mover(node) || take_dynamic(node);
  }

  // A bias of whole numbers, in units of both scales.
  std::string real_bias(const NodeData& node, size_t bias) {
    if (!has_input(node, bias)) return "";
    const std::string unit =
        add("Mul", node.outputs[0] + "/bias", {node.inputs[1], node.inputs[4]});
    return dequantise(node.inputs[bias], unit, "", 0);
  }

  bool take_layer(const NodeData& node, const std::string& op_type, int64_t axis, size_t bias) {
    if (node.inputs.size() < 8 || !is_constant(node.inputs[3])) return false;
    const std::string value = real(node, 0, 1);
    if (value.empty()) return false;
    const auto rank = std::ssize(constants_.at(node.inputs[3])->dims);
    const std::string weights = real(node, 3, axis < 0 ? rank - 1 : axis);
    std::vector<std::string> inputs = {value, weights};
    if (has_input(node, bias)) inputs.push_back(real_bias(node, bias));
    quantise(node,
             add(op_type, node.name.empty() ? node.outputs[0] : node.name, inputs, node.attributes),
             6);
    return true;
  }

  bool take_gemm(const NodeData& node) {
    if (node.inputs.size() < 6 || !is_constant(node.inputs[3])) return false;
    const std::string value = real(node, 0, 1);
    if (value.empty()) return false;
    const std::string weights = real(node, 3, whole_of(node, "transB", 0) != 0 ? 0 : 1);
    std::vector<NodeAttribute> attributes = node.attributes;
    attributes.push_back({"beta", static_cast<float>(real_of(node, "alpha", 1)), {}});
    const std::vector<std::string> inputs = {value, weights, real_bias(node, 6)};
    const std::string name = node.name.empty() ? node.outputs[0] : node.name;
    if (has_input(node, 7)) {
      quantise(node, add("Gemm", name, inputs, attributes), 7);
    } else {
      add("Gemm", name, inputs, attributes, node.outputs[0]);
      ++quantised_;
    }
    return true;
  }

  bool take_form(const NodeData& node) {
    const QuantisedForm form = quantised_form(node);
    if (whole_of(node, "channels_last", 0) != 0 || !has_input(node, form.result)) return false;
    std::vector<std::string> inputs;
    for (const size_t i : form.values) {
      inputs.push_back(real(node, i, 1));
      if (inputs.back().empty()) return false;
    }
    const NodeData twin = twin_of(node, form);
    quantise(node,
             add(twin.op_type, node.name.empty() ? node.outputs[0] : node.name, inputs,
                 twin.attributes, "", kOpset),
             form.result);
    return true;
  }

  // Pads of the zero point are zeros.
  bool pads_with_zeros(const NodeData& node) const {
    const auto zero = zeros_.find(node.inputs[0]);
    return is_own(node, "Pad") && node.inputs.size() > 2 && zero != zeros_.end() &&
           zero->second == node.inputs[2] && text_of(node, "mode", "constant") == "constant";
  }

  // The numbers that a mover chooses are real, too.
  bool take_mover(const NodeData& node) {
    if (node.inputs.empty() || (!is_mover(node) && !pads_with_zeros(node))) return false;
    const std::string& value = node.inputs[0];
    const auto constant = constants_.find(value);
    if (constant != constants_.end() && node.op_type == "Gather" && !is_constant(node.inputs[1]) &&
        element_bits(constant->second->type) <= 8) {
      chosen_[node.outputs[0]] = node;
      return false;
    }
    if (const auto pair = pairs_.find(value); pair != pairs_.end() && !real_.contains(value)) {
      const NodeData& maker = pair->second;
      real_[value] = dequantise(value, maker.inputs[1], input_or_nothing(maker, 2),
                                whole_of(maker, "axis", 1));
    }
    const auto found = real_.find(value);
    return found != real_.end() && move(node, found->second);
  }

  bool move(const NodeData& node, const std::string& value) {
    std::vector<std::string> inputs = node.inputs;
    inputs[0] = value;
    if (is_own(node, "Pad")) inputs[2].clear();
    zeros_[node.outputs[0]] = zeros_[node.inputs[0]];
    real_[node.outputs[0]] =
        add(node.op_type, node.name.empty() ? node.outputs[0] : node.name, inputs, node.attributes);
    return true;
  }

  bool take_dequantise(const NodeData& node) {
    const std::string& value = node.inputs[0];
    const auto chosen = chosen_.find(value);
    if (chosen != chosen_.end() && node.inputs.size() > 1) {
      std::vector<std::string> inputs = chosen->second.inputs;
      inputs[0] =
          dequantise(inputs[0], node.inputs[1], node.inputs.size() > 2 ? node.inputs[2] : "",
                     whole_of(node, "axis", 1));
      add("Gather", node.outputs[0], inputs, chosen->second.attributes, node.outputs[0]);
      return true;
    }
    const auto found = real_.find(value);
    if (found == real_.end()) return false;
    add("Identity", node.name, {found->second}, {}, node.outputs[0]);
    return true;
  }

  // The nodes stay: if something else reads their results, the import names them.
  bool take_dynamic(const NodeData& node) {
    if (is_own(node, "DynamicQuantizeLinear") && node.outputs.size() == 3) {
      sources_[node.outputs[0]] = node.inputs[0];
      scales_[node.outputs[1]] = {node.outputs[0], ""};
    }
    const bool is_product = is_own(node, "MatMulInteger") || is_own(node, "ConvInteger");
    if (is_product && node.inputs.size() >= 2 && sources_.contains(node.inputs[0]) &&
        is_constant(node.inputs[1])) {
      products_[node.outputs[0]] = node;
    }
    if (is_own(node, "Cast") && products_.contains(node.inputs[0])) {
      products_[node.outputs[0]] = products_[node.inputs[0]];
    }
    if (is_own(node, "Mul") && node.inputs.size() == 2) {
      return take_factor(node, 0) || take_factor(node, 1);
    }
    if (is_microsoft(node, "DynamicQuantizeMatMul") && node.inputs.size() > 2) {
      return add_dynamic(node, node.inputs[0], "MatMul", {},
                         {node.inputs[1], node.inputs[2], input_or_nothing(node, 3)},
                         input_or_nothing(node, 4));
    }
    if (is_microsoft(node, "MatMulIntegerToFloat") && node.inputs.size() > 3 &&
        sources_.contains(node.inputs[0])) {
      return add_dynamic(node, sources_[node.inputs[0]], "MatMul", {},
                         {node.inputs[1], node.inputs[3], input_or_nothing(node, 5)},
                         input_or_nothing(node, 6));
    }
    return false;
  }

  static std::string input_or_nothing(const NodeData& node, size_t i) {
    return has_input(node, i) ? node.inputs[i] : "";
  }

  // A product of input `i` with a scale: of the scale itself, or of a layer's sums.
  bool take_factor(const NodeData& node, size_t i) {
    const std::string& value = node.inputs[i];
    const std::string& factor = node.inputs[1 - i];
    const auto scale = scales_.find(value);
    if (scale != scales_.end() && scale->second.factor.empty() && is_constant(factor)) {
      scales_[node.outputs[0]] = {scale->second.quantised, factor};
      return false;
    }
    const auto product = products_.find(value);
    const auto unit = scales_.find(factor);
    if (product == products_.end() || unit == scales_.end() ||
        unit->second.quantised != product->second.inputs[0] || unit->second.factor.empty()) {
      return false;
    }
    const NodeData& layer = product->second;
    const bool is_conv = layer.op_type == "ConvInteger";
    return add_dynamic(node, sources_[layer.inputs[0]], is_conv ? "Conv" : "MatMul",
                       layer.attributes,
                       {layer.inputs[1], unit->second.factor, input_or_nothing(layer, 3)}, "");
  }

  struct Weights {
    std::string numbers, scale, zero;
  };
  bool add_dynamic(const NodeData& node, const std::string& value, const std::string& op_type,
                   const std::vector<NodeAttribute>& attributes, const Weights& weights,
                   const std::string& bias) {
    if (!is_constant(weights.numbers) || !is_constant(weights.scale) ||
        constants_[weights.scale]->dims.size() > 1) {
      return false;
    }
    const auto rank = std::ssize(constants_[weights.numbers]->dims);
    const std::string real_weights =
        dequantise(weights.numbers, weights.scale, weights.zero, op_type == "Conv" ? 0 : rank - 1);
    const std::string name = node.name.empty() ? node.outputs[0] : node.name;
    const std::string product =
        add(op_type, name, {value, real_weights}, attributes, bias.empty() ? node.outputs[0] : "");
    if (!bias.empty()) add("Add", name + "/bias", {product, bias}, {}, node.outputs[0]);
    ++dynamic_;
    return true;
  }

  GraphData& graph_;
  std::vector<NodeData> nodes_;
  std::map<std::string, const TensorData*> constants_;
  std::set<std::string> names_;
  std::map<std::string, NodeData> pairs_;       // of quantised values, their QuantizeLinear
  std::map<std::string, std::string> real_;     // of quantised values, their real numbers
  std::map<std::string, std::string> zeros_;    // and their zero points
  std::map<std::string, NodeData> chosen_;      // rows of a constant, by their Gather
  std::map<std::string, std::string> sources_;  // of values that are quantised as they come
  std::map<std::string, Scale> scales_;
  std::map<std::string, NodeData> products_;
  int64_t quantised_ = 0, dynamic_ = 0;
};

}  // namespace

std::vector<std::string> make_numbers_real(GraphData& graph) { return RealNumbers(graph).run(); }

}  // namespace mantissa::onnx
