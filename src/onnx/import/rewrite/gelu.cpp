// GELU, x times the normal distribution's function of x, as exporters spell it out.
#include <cmath>

#include "onnx/import/rewrite/spelled_out.h"

namespace mantissa::onnx {
namespace {

// x of 1 + f(x), and which f: erf(x / sqrt 2), or tanh(sqrt(2 / pi) (x + 0.044715 x^3)). "":
// neither.
struct Bend {
  std::string x;
  bool is_tanh = false;
};

bool is_cube(const SpelledOut& graph, const std::string& value, const std::string& x) {
  if (const NodeData* power = graph.maker(value, "Pow", 2)) {
    return power->inputs[0] == x && SpelledOut::near(graph.number(power->inputs[1]), 3);
  }
  const NodeData* product = graph.maker(value, "Mul", 2);
  for (const size_t i : {0, 1}) {
    if (product == nullptr || product->inputs[i] != x) continue;
    if (graph.is_square(product->inputs[1 - i], x)) return true;
  }
  return false;
}

// x if the value is sqrt(2 / pi) (x + 0.044715 x^3).
std::string of_tanh(const SpelledOut& graph, const std::string& value) {
  const NodeData* sum = graph.maker(graph.unscaled(value, std::sqrt(2 / M_PI)), "Add", 2);
  for (const size_t i : {0, 1}) {
    if (sum == nullptr) continue;
    const std::string cube = graph.unscaled(sum->inputs[1 - i], 0.044715);
    if (!cube.empty() && is_cube(graph, cube, sum->inputs[i])) return sum->inputs[i];
  }
  return "";
}

Bend bend_of(const SpelledOut& graph, const std::string& value) {
  const NodeData* sum = graph.maker(value, "Add", 2);
  if (sum == nullptr) return {};
  const std::string bent = graph.beside(*sum, 1);
  if (const NodeData* erf = graph.maker(bent, "Erf")) {
    return {graph.unscaled(erf->inputs[0], std::sqrt(0.5)), false};
  }
  if (const NodeData* tanh = graph.maker(bent, "Tanh"))
    return {of_tanh(graph, tanh->inputs[0]), true};
  return {};
}

// The bend if the node is x (1 + f(x)), without its half.
Bend product_of(const SpelledOut& graph, const NodeData& node, double factor_of_x) {
  for (const size_t i : {0, 1}) {
    const Bend bend = bend_of(graph, node.inputs[i]);
    const std::string& other = node.inputs[1 - i];
    if (bend.x.empty()) continue;
    if ((factor_of_x == 1 ? other : graph.unscaled(other, factor_of_x)) == bend.x) return bend;
  }
  return {};
}

Bend gelu_of(const SpelledOut& graph, const NodeData& node) {
  // (x (1 + f)) / 2.
  std::string whole = node.op_type == "Mul" ? graph.beside(node, 0.5) : "";
  if (node.op_type == "Div" && SpelledOut::near(graph.number(node.inputs[1]), 2)) {
    whole = node.inputs[0];
  }
  if (const NodeData* product = graph.maker(whole, "Mul", 2)) {
    const Bend bend = product_of(graph, *product, 1);
    if (!bend.x.empty()) return bend;
  }
  if (node.op_type != "Mul") return {};
  // (x / 2) (1 + f).
  const Bend bend = product_of(graph, node, 0.5);
  if (!bend.x.empty()) return bend;
  // x ((1 + f) / 2).
  for (const size_t i : {0, 1}) {
    const Bend half = bend_of(graph, graph.unscaled(node.inputs[i], 0.5));
    if (!half.x.empty() && half.x == node.inputs[1 - i]) return half;
  }
  return {};
}

}  // namespace

bool join_gelu(SpelledOut& graph, NodeData& node) {
  if (node.inputs.size() != 2) return false;
  const Bend bend = gelu_of(graph, node);
  if (bend.x.empty()) return false;
  graph.become(node, "Gelu", bend.x,
               {{"approximate", std::string(bend.is_tanh ? "tanh" : "none")}});
  return true;
}

}  // namespace mantissa::onnx
