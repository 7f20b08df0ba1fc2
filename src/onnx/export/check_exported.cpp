#include "onnx/export/check_exported.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>

namespace mantissa::onnx {
namespace {

constexpr int kInt4Opset = 21;

class Check {
 public:
  explicit Check(const ModelData& model) : model_(model) {
    for (const TensorData& tensor : model.graph.initialisers) constants_[tensor.name] = &tensor;
    for (const NodeData& node : model.graph.nodes) {
      for (const std::string& output : node.outputs) makers_[output] = &node;
    }
  }

  Status run() const {
    MANTISSA_RETURN_IF_ERROR(check_names());
    for (const TensorData& tensor : model_.graph.initialisers) {
      if (tensor.type == ElementType::kInt4 && opset() < kInt4Opset) {
        return refused(tensor.name, "has 4 bits, which begin with operator set 21");
      }
    }
    for (const NodeData& node : model_.graph.nodes) MANTISSA_RETURN_IF_ERROR(check_node(node));
    return {};
  }

 private:
  static Error refused(const std::string& name, const std::string& reason) {
    return invalid_input("cannot be exported: '" + name + "' " + reason);
  }

  int64_t opset() const {
    const auto found = model_.opsets.find("");
    return found == model_.opsets.end() ? 0 : found->second;
  }

  Status check_names() const {
    std::set<std::string> made;
    const auto add = [&](const std::string& name) -> Status {
      if (made.insert(name).second) return {};
      return refused(name, "is the name of two tensors: rename the layer");
    };
    for (const ValueData& input : model_.graph.inputs) MANTISSA_RETURN_IF_ERROR(add(input.name));
    for (const TensorData& tensor : model_.graph.initialisers) {
      MANTISSA_RETURN_IF_ERROR(add(tensor.name));
    }
    for (const NodeData& node : model_.graph.nodes) {
      for (const std::string& input : node.inputs) {
        if (input.empty() || made.contains(input)) continue;
        return refused(node.name, "reads '" + input + "', which nothing before it makes");
      }
      for (const std::string& output : node.outputs) {
        if (!output.empty()) MANTISSA_RETURN_IF_ERROR(add(output));
      }
    }
    return {};
  }

  Status check_node(const NodeData& node) const {
    const std::string& op = node.op_type;
    if (op == "QuantizeLinear" || op == "DequantizeLinear") return check_scales(node);
    if (op == "Conv" || op == "Gemm") return check_bias(node);
    if (op == "MaxPool" || op == "AveragePool") return check_windows(node);
    return {};
  }

  const TensorData* constant(const std::string& name) const {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : found->second;
  }

  static std::vector<float> floats(const TensorData& tensor) {
    std::vector<float> numbers(tensor.bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), tensor.bytes.data(), numbers.size() * sizeof(float));
    return numbers;
  }

  Status check_scales(const NodeData& node) const {
    const TensorData* scales = constant(node.inputs[1]);
    if (scales == nullptr || scales->type != ElementType::kFloat) {
      return refused(node.name, "has no constant float32 scale");
    }
    for (const float scale : floats(*scales)) {
      if (!std::isnormal(scale) || scale < 0) {
        return refused(node.name, "has a scale that float32 cannot express");
      }
    }
    const TensorData* zero = node.inputs.size() > 2 ? constant(node.inputs[2]) : nullptr;
    if (zero == nullptr) return {};
    if (zero->dims != scales->dims) return refused(node.name, "has a zero point of another shape");
    const TensorData* from = constant(node.inputs[0]);
    const bool other_type =
        node.op_type == "DequantizeLinear" && from != nullptr && from->type != zero->type;
    if (other_type || zero->type == ElementType::kInt32) {
      return refused(node.name, "has a zero point of another type");
    }
    return {};
  }

  // The scales of the DequantizeLinear that makes the tensor; none if another operator makes it.
  // `type` gets the type of its constant, and stays unchanged if it reads none.
  std::vector<float> scales_of(const std::string& tensor, ElementType* type = nullptr) const {
    const auto maker = makers_.find(tensor);
    if (maker == makers_.end() || maker->second->op_type != "DequantizeLinear") return {};
    const TensorData* from = constant(maker->second->inputs[0]);
    if (from != nullptr && type != nullptr) *type = from->type;
    return floats(*constant(maker->second->inputs[1]));
  }

  Status check_bias(const NodeData& node) const {
    if (node.inputs.size() < 3) return {};
    ElementType type = ElementType::kUndefined;
    const std::vector<float> input = scales_of(node.inputs[0]);
    const std::vector<float> weights = scales_of(node.inputs[1], &type);
    const std::vector<float> bias = scales_of(node.inputs[2]);
    const bool in_integers = type == ElementType::kInt8 || type == ElementType::kUint8;
    if (!in_integers || input.size() != 1 || bias.empty()) return {};
    bool agrees = bias.size() == weights.size();
    for (size_t i = 0; agrees && i < bias.size(); ++i) {
      agrees = bias[i] == input[0] * weights[i];
    }
    if (agrees) return {};
    return refused(node.name, "has a bias that is not in units of input times weight");
  }

  static Status check_windows(const NodeData& node) {
    const auto list = [&](const char* name) {
      for (const NodeAttribute& each : node.attributes) {
        const auto* found = std::get_if<std::vector<int64_t>>(&each.value);
        if (each.name == name && found != nullptr) return *found;
      }
      return std::vector<int64_t>();
    };
    const std::vector<int64_t> windows = list("kernel_shape"), pads = list("pads");
    for (size_t i = 0; i < pads.size(); ++i) {
      if (pads[i] < windows[i % windows.size()]) continue;
      return refused(node.name, "has padding as large as its windows, which ONNX Runtime refuses");
    }
    return {};
  }

  const ModelData& model_;
  std::map<std::string, const TensorData*> constants_;
  std::map<std::string, const NodeData*> makers_;
};

}  // namespace

Status check_exported(const ModelData& model) { return Check(model).run(); }

}  // namespace mantissa::onnx
