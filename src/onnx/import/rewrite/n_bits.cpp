// Layers with weights of few bits in blocks (MatMulNBits of com.microsoft) become layers of the
// real numbers that these weights stand for.
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "onnx/evaluate/operators/quantised/n_bits.h"
#include "onnx/files/node_values.h"
#include "onnx/import/rewrite/rewrite.h"

namespace mantissa::onnx {
namespace {

bool is_few_bits(const NodeData& node) {
  return node.domain == "com.microsoft" && node.op_type == "MatMulNBits" &&
         node.outputs.size() == 1 && has_input(node, 0) && has_input(node, 1) &&
         has_input(node, 2) && !has_input(node, 4);  // an order of the weights
}

class FewBits {
 public:
  explicit FewBits(GraphData& graph) : graph_(graph) {
    for (const TensorData& tensor : graph.initialisers) constants_.emplace(tensor.name, tensor);
  }

  std::vector<std::string> run() {
    std::vector<NodeData> nodes;
    for (NodeData& node : graph_.nodes) {
      if (!is_few_bits(node) || !unpack(node, nodes)) nodes.push_back(std::move(node));
    }
    graph_.nodes = std::move(nodes);
    std::vector<std::string> notes;
    for (const auto& [kind, count] : counts_) {
      notes.push_back(std::to_string(count) + (count == 1 ? " layer" : " layers") +
                      " with weights of " + std::to_string(kind.first) + " bits in blocks of " +
                      std::to_string(kind.second) +
                      " (MatMulNBits): the weights are the real numbers that these stand for, and "
                      "training changes those");
    }
    return notes;
  }

 private:
  // Null: it is no constant.
  const TensorData* constant(const NodeData& node, size_t i) const {
    const auto found = has_input(node, i) ? constants_.find(node.inputs[i]) : constants_.end();
    return found == constants_.end() ? nullptr : &found->second;
  }

  // "fc.weight" of "fc.weight_Q4", which is what the tools make of it.
  std::string weights_name(const std::string& packed, int64_t bits) const {
    const std::string end = "_Q" + std::to_string(bits);
    const std::string name =
        packed.ends_with(end) ? packed.substr(0, packed.size() - end.size()) : packed + "/real";
    return constants_.contains(name) ? packed + "/real" : name;
  }

  // The weights as a constant, [depth, columns].
  std::string add_weights(const std::string& packed, const NBits& n, const NBitsTensors& from) {
    std::string name = weights_name(packed, n.bits);
    if (!made_.insert(name).second) return name;
    const std::vector<float> by_column = unpacked(n, from);
    auto kept = std::make_shared<std::vector<float>>(by_column.size());
    for (int64_t column = 0; column < n.columns; ++column) {
      for (int64_t k = 0; k < n.depth; ++k) {
        (*kept)[static_cast<size_t>(k * n.columns + column)] =
            by_column[static_cast<size_t>(column * n.depth + k)];
      }
    }
    graph_.initialisers.push_back({name,
                                   ElementType::kFloat,
                                   {n.depth, n.columns},
                                   std::as_bytes(std::span(*kept)),
                                   kept});
    return name;
  }

  // Adds MatMul, and Add if there is a bias. False: the node has another form.
  bool unpack(const NodeData& node, std::vector<NodeData>& nodes) {
    const auto n = n_bits_of(node);
    const NBitsTensors from = {constant(node, 1), constant(node, 2), constant(node, 3)};
    const bool is_known = from.numbers != nullptr && from.scales != nullptr &&
                          (from.zeros != nullptr || !has_input(node, 3));
    if (!n.ok() || !is_known || !check_n_bits(*n, from).ok()) return false;
    const bool has_bias = has_input(node, 5);
    NodeData product;
    product.name = node.name;
    product.op_type = "MatMul";
    product.inputs = {node.inputs[0], add_weights(node.inputs[1], *n, from)};
    product.outputs = {has_bias ? node.outputs[0] + "/product" : node.outputs[0]};
    nodes.push_back(product);
    if (has_bias) {
      NodeData sum;
      sum.name = node.name;
      sum.op_type = "Add";
      sum.inputs = {product.outputs[0], node.inputs[5]};
      sum.outputs = node.outputs;
      nodes.push_back(std::move(sum));
    }
    ++counts_[{n->bits, n->block}];
    return true;
  }

  GraphData& graph_;
  std::map<std::string, TensorData> constants_;
  std::set<std::string> made_;
  std::map<std::pair<int64_t, int64_t>, int64_t> counts_;  // by bits and block
};

}  // namespace

std::vector<std::string> unpack_n_bits(GraphData& graph) { return FewBits(graph).run(); }

}  // namespace mantissa::onnx
