#include "onnx/import/rewrite/spelled_out.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "onnx/files/node_values.h"

namespace mantissa::onnx {

SpelledOut::SpelledOut(GraphData& graph) : graph_(graph) {
  for (const TensorData& tensor : graph.initialisers) constants_[tensor.name] = &tensor;
  for (const ValueData& output : graph.outputs) ++reads_[output.name];
  for (NodeData& node : graph.nodes) {
    for (const std::string& output : node.outputs) makers_[output] = &node;
    for (const std::string& input : node.inputs) ++reads_[input];
  }
}

const NodeData* SpelledOut::maker(const std::string& value, const char* op_type,
                                  size_t inputs) const {
  const auto found = makers_.find(value);
  const bool fits = found != makers_.end() && found->second->op_type == op_type &&
                    found->second->inputs.size() >= inputs;
  return fits ? found->second : nullptr;
}

NodeData* SpelledOut::only_read_maker(const std::string& value, const char* op_type) {
  if (maker(value, op_type) == nullptr || reads_[value] != 1) return nullptr;
  return makers_[value];
}

const TensorData* SpelledOut::constant(const std::string& name) const {
  const auto found = constants_.find(name);
  return found == constants_.end() ? nullptr : found->second;
}

// Initialisers move when their list grows.
void SpelledOut::add_constant(TensorData tensor) {
  ++reads_[tensor.name];
  graph_.initialisers.push_back(std::move(tensor));
  for (const TensorData& each : graph_.initialisers) constants_[each.name] = &each;
}

double SpelledOut::number(const std::string& name) const {
  const auto found = constants_.find(name);
  if (found == constants_.end()) return NAN;
  const auto numbers = numbers_of(*found->second);
  return numbers.ok() && numbers->size() == 1 ? (*numbers)[0] : NAN;
}

std::vector<int64_t> SpelledOut::wholes(const std::string& name) const {
  const auto found = constants_.find(name);
  if (found == constants_.end()) return {};
  const auto numbers = wholes_of(*found->second);
  return numbers.ok() ? *numbers : std::vector<int64_t>();
}

std::vector<int64_t> SpelledOut::axes(const NodeData& mean) const {
  return mean.inputs.size() > 1 ? wholes(mean.inputs[1]) : wholes_of(mean, "axes");
}

bool SpelledOut::is_square(const std::string& value, const std::string& x) const {
  const NodeData* product = maker(value, "Mul");
  if (product != nullptr) return product->inputs == std::vector{x, x};
  const NodeData* power = maker(value, "Pow", 2);
  return power != nullptr && power->inputs[0] == x && near(number(power->inputs[1]), 2);
}

bool SpelledOut::near(double number, double wanted) {
  return std::abs(number - wanted) <= 1e-5 * std::abs(wanted);
}

std::string SpelledOut::beside(const NodeData& node, double wanted) const {
  for (const size_t i : {0, 1}) {
    if (node.inputs.size() == 2 && near(number(node.inputs[i]), wanted)) return node.inputs[1 - i];
  }
  return "";
}

std::string SpelledOut::unscaled(const std::string& value, double factor) const {
  if (const NodeData* product = maker(value, "Mul", 2)) return beside(*product, factor);
  const NodeData* quotient = maker(value, "Div", 2);
  const bool fits = quotient != nullptr && near(number(quotient->inputs[1]), 1 / factor);
  return fits ? quotient->inputs[0] : "";
}

void SpelledOut::become(NodeData& node, const char* op_type, const std::string& input,
                        std::vector<NodeAttribute> attributes) {
  ++reads_[input];
  const std::string kept = input;  // perhaps one of the node's own
  for (const std::string& old : node.inputs) --reads_[old];
  node.op_type = op_type;
  node.inputs = {kept};
  node.attributes = std::move(attributes);
}

void SpelledOut::add_input(NodeData& node, const std::string& input) {
  ++reads_[input];
  node.inputs.push_back(input);
}

TensorData whole_numbers(const std::string& name, std::vector<int64_t> numbers) {
  auto kept = std::make_shared<const std::vector<int64_t>>(std::move(numbers));
  return {name, ElementType::kInt64, {std::ssize(*kept)}, std::as_bytes(std::span(*kept)), kept};
}

void SpelledOut::sweep() {
  std::vector<NodeData> kept;
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    const bool is_read = std::any_of(node->outputs.begin(), node->outputs.end(),
                                     [&](const std::string& out) { return reads_[out] > 0; });
    if (is_read) {
      kept.push_back(std::move(*node));
      continue;
    }
    for (const std::string& input : node->inputs) --reads_[input];
  }
  std::reverse(kept.begin(), kept.end());
  graph_.nodes = std::move(kept);
}

}  // namespace mantissa::onnx
