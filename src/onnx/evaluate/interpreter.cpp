#include "onnx/evaluate/interpreter.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/work.h"

namespace mantissa::onnx {
namespace {

std::vector<EvaluatedValue> unknown_outputs(const NodeData& node) {
  return std::vector<EvaluatedValue>(node.outputs.size());
}

// Aligned numbers for C++: values of a file may be unaligned. Large values are aligned only if
// their numbers are read.
constexpr size_t kSmallBytes = 1 << 16;

Status align(std::vector<const EvaluatedValue*>& inputs, bool all,
             std::deque<EvaluatedValue>& copies) {
  for (const EvaluatedValue*& input : inputs) {
    if (input == nullptr || !input->known) continue;
    const bool is_small = input->tensor.bytes.size() <= kSmallBytes;
    if (!all && !is_small && input->tensor.type != ElementType::kBool) continue;
    MANTISSA_ASSIGN(TensorData tensor, aligned(input->tensor));
    if (tensor.bytes.data() == input->tensor.bytes.data()) continue;
    input = &copies.emplace_back(EvaluatedValue{std::move(tensor), true, true});
  }
  return {};
}

// Reasons quote attributes, which may hold anything.
std::string printable(std::string reason) {
  constexpr size_t kMost = 300;
  if (reason.size() > kMost) reason = reason.substr(0, kMost) + "...";
  for (char& character : reason) {
    if (static_cast<unsigned char>(character) < ' ' || character == '\x7f') character = '?';
  }
  return reason;
}

const GraphData* graph_attribute(const NodeData& node, const char* name) {
  for (const NodeAttribute& attribute : node.attributes) {
    if (attribute.name != name) continue;
    const auto* graph = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
    return graph == nullptr ? nullptr : graph->get();
  }
  return nullptr;
}

// A value is one or the other: keeps the facts that hold for both.
void keep_common(std::vector<EvaluatedValue>& values, const std::vector<EvaluatedValue>& others) {
  for (size_t i = 0; i < values.size(); ++i) {
    EvaluatedValue& value = values[i];
    const EvaluatedValue& other = others[i];
    value.known = false;
    value.tensor.bytes = {};
    value.shaped = value.shaped && other.shaped && value.tensor.type == other.tensor.type &&
                   value.tensor.dims == other.tensor.dims;
  }
}

}  // namespace

const EvaluatedValue* Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->around) {
    const auto found = scope->values.find(name);
    if (found != scope->values.end()) return &found->second;
  }
  return nullptr;
}

std::string name_of(const NodeData& node) {
  if (!node.name.empty() || node.outputs.empty()) return node.name;
  return node.outputs.front();
}

void add_initialisers(const GraphData& graph, Scope& scope) {
  for (const TensorData& tensor : graph.initialisers) {
    // Only the names of string tensors are known.
    const bool known = element_bits(tensor.type) != 0;
    scope.values.emplace(tensor.name,
                         known ? EvaluatedValue{tensor, true, true} : EvaluatedValue());
  }
}

void for_each_read(const NodeData& node, const std::function<void(const std::string&)>& function) {
  for (const std::string& input : node.inputs) {
    if (!input.empty()) function(input);
  }
  for (const NodeAttribute& attribute : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
    if (graph == nullptr) continue;
    for (const NodeData& inner : (*graph)->nodes) for_each_read(inner, function);
    for (const ValueData& output : (*graph)->outputs) function(output.name);
  }
}

// Shapes first: they say whether the constants have room.
Result<std::vector<EvaluatedValue>> Interpreter::run_known(
    const NodeData& node, std::vector<const EvaluatedValue*> inputs, Status (*function)(OpCall&)) {
  std::deque<EvaluatedValue> copies;
  MANTISSA_RETURN_IF_ERROR(align(inputs, false, copies));
  OpCall shapes(node, opset_of(node, opset), true, inputs, *pool);
  MANTISSA_RETURN_IF_ERROR(function(shapes));
  const std::vector<EvaluatedValue> expected = shapes.take_outputs();
  for (const EvaluatedValue& value : expected) {
    const bool is_view =
        std::any_of(inputs.begin(), inputs.end(), [&](const EvaluatedValue* input) {
          return input != nullptr && value.known && !value.tensor.bytes.empty() &&
                 input->tensor.bytes.data() == value.tensor.bytes.data();
        });
    if (!is_view) constant_bytes -= std::min(constant_bytes + 1, bytes_of({value}));
  }
  if (constant_bytes < 0) {
    return invalid_input("constants outgrow the file: they are much larger than its tensors");
  }
  const bool known = std::all_of(expected.begin(), expected.end(),
                                 [](const EvaluatedValue& value) { return value.known; });
  if (known) return expected;
  constant_work -= std::min(constant_work + 1, work_of(node, inputs, expected));
  if (constant_work < 0) {
    return invalid_input("the network's constants take too much computing to be folded");
  }
  MANTISSA_RETURN_IF_ERROR(align(inputs, true, copies));
  OpCall call(node, opset_of(node, opset), false, std::move(inputs), *pool);
  MANTISSA_RETURN_IF_ERROR(function(call));
  return call.take_outputs();
}

Result<std::vector<EvaluatedValue>> Interpreter::run_operator(const NodeData& node,
                                                              const Scope& scope) {
  if (node.op_type == "If" && node.domain.empty()) return run_if(node, scope);
  const int64_t own_opset = opset_of(node, opset);
  MANTISSA_ASSIGN(const OpRow* row, find_operator(node, own_opset));
  std::vector<const EvaluatedValue*> inputs;
  bool known = true;
  for (const std::string& name : node.inputs) {
    const EvaluatedValue* value = name.empty() ? nullptr : scope.find(name);
    // The node that makes it has failed, and is named.
    if (!name.empty() && (value == nullptr || !value->shaped)) return unknown_outputs(node);
    known = known && (value == nullptr || value->known);
    inputs.push_back(value);
  }
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  // CastLike reads only the type of its second input, which is known.
  EvaluatedValue type_alone;
  if (node.op_type == "CastLike" && inputs.size() == 2 && inputs[0] != nullptr &&
      inputs[1] != nullptr && inputs[0]->known) {
    type_alone = {{"", inputs[1]->tensor.type, {0}, {}, {}}, true, true};
    inputs[1] = &type_alone;
    known = true;
  }
  if (shapes_only && known) return run_known(node, std::move(inputs), row->function);
  std::deque<EvaluatedValue> copies;
  MANTISSA_RETURN_IF_ERROR(align(inputs, !shapes_only, copies));
  OpCall call(node, own_opset, shapes_only, std::move(inputs), *pool);
  const Status status = row->function(call);
  if (!status.ok() && call.undetermined()) return unknown_outputs(node);
  if (!status.ok()) return status.error();
  return call.take_outputs();
}

Result<std::vector<EvaluatedValue>> Interpreter::run_if(const NodeData& node, const Scope& scope) {
  const GraphData* branches[] = {graph_attribute(node, "else_branch"),
                                 graph_attribute(node, "then_branch")};
  const EvaluatedValue* condition = node.inputs.size() == 1 ? scope.find(node.inputs[0]) : nullptr;
  if (branches[0] == nullptr || branches[1] == nullptr || condition == nullptr) {
    return invalid_input("an If without a condition or a branch");
  }
  if (condition->shaped &&
      (condition->tensor.type != ElementType::kBool || count_of(condition->tensor.dims) != 1)) {
    return invalid_input("a condition that is no single truth value");
  }
  std::vector<std::vector<EvaluatedValue>> results;
  for (const bool then : {false, true}) {
    // Truth values of files are bytes: all but 0 are true.
    if (condition->known && (condition->tensor.bytes[0] != std::byte{0}) != then) continue;
    const GraphData& branch = *branches[then ? 1 : 0];
    Scope inner{{}, &scope};
    add_initialisers(branch, inner);
    results.push_back(run_graph(branch, inner, false));
    if (results.back().size() != node.outputs.size()) {
      return invalid_input("a branch with another number of outputs");
    }
  }
  if (results.size() == 2) keep_common(results[0], results[1]);
  return std::move(results[0]);
}

std::vector<EvaluatedValue> Interpreter::run_node(const NodeData& node, const Scope& scope) {
  Result<std::vector<EvaluatedValue>> outputs = run_operator(node, scope);
  if (outputs.ok()) {
    // Outputs that nobody wants may have been made all the same.
    outputs->resize(node.outputs.size());
    return std::move(*outputs);
  }
  problems.push_back({name_of(node), node.op_type, printable(outputs.error().message)});
  return unknown_outputs(node);
}

// Values go that nobody reads any more.
void Interpreter::release(const NodeData& node, std::unordered_map<std::string, int64_t>& reads,
                          Scope& scope) {
  const auto drop = [&](const std::string& name) {
    const auto found = scope.values.find(name);
    if (found == scope.values.end()) return;
    live_bytes -= bytes_of({found->second});
    scope.values.erase(found);
  };
  for_each_read(node, [&](const std::string& name) {
    const auto found = reads.find(name);
    if (found != reads.end() && --found->second == 0) drop(name);
  });
  for (const std::string& name : node.outputs) {
    if (!reads.contains(name)) drop(name);
  }
}

std::vector<EvaluatedValue> Interpreter::run_graph(const GraphData& graph, Scope& scope,
                                                   bool outermost) {
  std::unordered_map<std::string, int64_t> reads;
  for (const NodeData& node : graph.nodes) {
    for_each_read(node, [&](const std::string& name) { ++reads[name]; });
  }
  for (const ValueData& output : graph.outputs) ++reads[output.name];
  for (const NodeData& node : graph.nodes) {
    std::vector<EvaluatedValue> outputs = run_node(node, scope);
    if (!shapes_only && !problems.empty()) break;
    live_bytes += bytes_of(outputs);
    peak_bytes = std::max(peak_bytes, live_bytes);
    if (outermost && observe) observe(node, scope, outputs);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty()) scope.values[node.outputs[i]] = std::move(outputs[i]);
    }
    release(node, reads, scope);
  }
  std::vector<EvaluatedValue> results;
  for (const ValueData& output : graph.outputs) {
    const EvaluatedValue* value = scope.find(output.name);
    results.push_back(value == nullptr ? EvaluatedValue() : *value);
  }
  return results;
}

}  // namespace mantissa::onnx
