// Pairs of QuantizeLinear and DequantizeLinear between the nodes that spell out one layer: between
// a product and its bias, and inside GELU. There is no value of the network between these, so the
// pairs are left out.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "onnx/files/node_values.h"
#include "onnx/import/rewrite/rewrite.h"
#include "onnx/import/rewrite/spelled_out.h"

namespace mantissa::onnx {
namespace {

class InnerPairs {
 public:
  explicit InnerPairs(GraphData& graph) : graph_(graph) {
    for (const TensorData& tensor : graph.initialisers) constants_[tensor.name] = &tensor;
    for (NodeData& node : graph.nodes) {
      for (const std::string& output : node.outputs) makers_[output] = &node;
      for (const std::string& input : node.inputs) readers_[input].push_back(&node);
    }
    for (const ValueData& output : graph.outputs) readers_[output.name].push_back(nullptr);
  }

  int64_t run() {
    for (NodeData& node : graph_.nodes) {
      if (node.op_type == "Add" && node.inputs.size() == 2) leave_out_before_bias(node);
      if (node.op_type == "Erf") leave_out_of_gelu(node);
    }
    return count_;
  }

 private:
  const NodeData* maker(const std::string& value, std::string_view op_type) const {
    const auto found = makers_.find(value);
    const bool is_it = found != makers_.end() && found->second->op_type == op_type &&
                       !found->second->inputs.empty();
    return is_it ? found->second : nullptr;
  }
  NodeData* only_reader(const std::string& value) const {
    const auto found = readers_.find(value);
    return found == readers_.end() || found->second.size() != 1 ? nullptr : found->second[0];
  }
  bool is_constant(const std::string& name) const { return constants_.contains(name); }

  // Whether the zero point lies inside its type's numbers, so that the grid cuts no sign.
  bool has_both_signs(const NodeData& quantise) const {
    if (!has_input(quantise, 2)) return false;  // uint8, from 0
    const auto zero = constants_.find(quantise.inputs[2]);
    if (zero == constants_.end()) return false;
    const auto numbers = numbers_of(*zero->second);
    const ElementType type = zero->second->type;
    const bool is_unsigned = type == ElementType::kUint8 || type == ElementType::kUint16;
    if (!numbers.ok() || numbers->size() != 1) return false;
    const int bits = type == ElementType::kUint8 || type == ElementType::kInt8 ? 8 : 16;
    const double low = is_unsigned ? 0 : -static_cast<double>(1 << (bits - 1));
    return (*numbers)[0] > low && (*numbers)[0] < low + (1 << bits) - 1;
  }
  // The value before a pair whose result this is; "": there is none.
  std::string behind_pair(const std::string& value) const {
    const NodeData* dequantise = maker(value, "DequantizeLinear");
    const NodeData* quantise =
        dequantise == nullptr ? nullptr : maker(dequantise->inputs[0], "QuantizeLinear");
    return quantise == nullptr || is_constant(quantise->inputs[0]) ? "" : quantise->inputs[0];
  }
  // Lets the node read the value before the pair.
  void leave_out(NodeData& node, size_t input) {
    const std::string before = behind_pair(node.inputs[input]);
    if (before.empty()) return;
    std::erase(readers_[node.inputs[input]], &node);
    readers_[before].push_back(&node);
    node.inputs[input] = before;
    ++count_;
  }

  // The sum of a constant and ~(x * weights).
  void leave_out_before_bias(NodeData& add) {
    for (const size_t i : {0, 1}) {
      const std::string& value = add.inputs[i];
      const NodeData* product = maker(behind_pair(value), "MatMul");
      if (product == nullptr || product->inputs.size() != 2) continue;
      const auto weights = constants_.find(product->inputs[1]);
      const auto bias = constants_.find(add.inputs[1 - i]);
      const bool is_layer = weights != constants_.end() && bias != constants_.end() &&
                            weights->second->dims.size() == 2 &&
                            bias->second->dims == std::vector{weights->second->dims[1]};
      const NodeData* quantise = maker(maker(value, "DequantizeLinear")->inputs[0],
                                       "QuantizeLinear");
      if (is_layer && only_reader(value) == &add && has_both_signs(*quantise)) leave_out(add, i);
    }
  }

  // The node that alone reads the value or, through a pair, its numbers on a grid; then the pair is
  // left out. Null: it is no such operator.
  NodeData* next(const std::string& value, std::initializer_list<std::string_view> op_types) {
    NodeData* reader = only_reader(value);
    std::string read = value;
    if (reader != nullptr && reader->op_type == "QuantizeLinear") {
      const NodeData* dequantise = only_reader(reader->outputs[0]);
      if (dequantise == nullptr || dequantise->op_type != "DequantizeLinear") return nullptr;
      read = dequantise->outputs[0];
      reader = only_reader(read);
    }
    if (reader == nullptr || reader->inputs.size() != 2 ||
        std::find(op_types.begin(), op_types.end(), reader->op_type) == op_types.end()) {
      return nullptr;
    }
    if (read != value) leave_out(*reader, reader->inputs[0] == read ? 0 : 1);
    return reader;
  }
  // Whether the node takes half of a value.
  bool is_half(const NodeData& node) const {
    const auto is = [&](size_t input, double wanted) {
      const auto found = constants_.find(node.inputs[input]);
      if (found == constants_.end()) return false;
      const auto numbers = numbers_of(*found->second);
      return numbers.ok() && numbers->size() == 1 && SpelledOut::near((*numbers)[0], wanted);
    };
    if (node.op_type == "Div") return is(1, 2);
    return node.op_type == "Mul" && (is(0, 0.5) || is(1, 0.5));
  }

  // x (1 + erf(x / sqrt 2)) / 2, in any order of its factors.
  void leave_out_of_gelu(NodeData& erf) {
    const std::string scaled = behind_pair(erf.inputs[0]);
    if (maker(scaled, "Div") != nullptr || maker(scaled, "Mul") != nullptr) leave_out(erf, 0);
    NodeData* node = next(erf.outputs[0], {"Add"});
    bool has_half = false, has_value = false;
    while (node != nullptr) {
      if (node->op_type != "Add") {
        (is_half(*node) ? has_half : has_value) = true;
        if (!is_half(*node)) leave_out_before_product(*node);
      }
      if (has_half && has_value) return;
      // Behind x (1 + erf) a half, if it was not there before.
      NodeData* reader = only_reader_behind_pair(node->outputs[0]);
      const bool is_product =
          reader != nullptr && (reader->op_type == "Mul" || reader->op_type == "Div");
      if (!is_product || (has_value && !is_half(*reader))) return;
      node = next(node->outputs[0], {"Mul", "Div"});
    }
  }
  // The node that reads the value, or its numbers on a grid.
  NodeData* only_reader_behind_pair(const std::string& value) const {
    NodeData* reader = only_reader(value);
    if (reader == nullptr || reader->op_type != "QuantizeLinear") return reader;
    const NodeData* dequantise = only_reader(reader->outputs[0]);
    return dequantise == nullptr ? nullptr : only_reader(dequantise->outputs[0]);
  }
  // (x / 2) as a factor of the product.
  void leave_out_before_product(NodeData& product) {
    for (const size_t i : {0, 1}) {
      const NodeData* half = maker(behind_pair(product.inputs[i]), "Mul");
      if (half != nullptr && half->inputs.size() == 2 && is_half(*half) &&
          only_reader(product.inputs[i]) == &product) {
        leave_out(product, i);
      }
    }
  }

  GraphData& graph_;
  std::map<std::string, const TensorData*> constants_;
  std::map<std::string, NodeData*> makers_;
  std::map<std::string, std::vector<NodeData*>> readers_;
  int64_t count_ = 0;
};

}  // namespace

std::vector<std::string> leave_out_inner_pairs(GraphData& graph) {
  const int64_t count = InnerPairs(graph).run();
  if (count == 0) return {};
  return {std::to_string(count) +
          " pairs of QuantizeLinear and DequantizeLinear inside layers are left out: between a "
          "product and its bias, and inside GELU"};
}

}  // namespace mantissa::onnx
