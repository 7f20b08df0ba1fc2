#include "onnx/evaluate/interpreter.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "onnx/evaluate/control.h"
#include "onnx/evaluate/halves.h"
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
    if (input == nullptr || !input->known || input->kind != ValueKind::kTensor) continue;
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

using ControlFunction = Result<std::vector<EvaluatedValue>> (*)(Interpreter&, const NodeData&,
                                                                const Scope&);

ControlFunction control_function(const NodeData& node) {
  constexpr std::pair<std::string_view, ControlFunction> kControls[] = {
      {"If", run_if}, {"Loop", run_loop}, {"Scan", run_scan}, {"SequenceMap", run_sequence_map}};
  if (!node.domain.empty()) return nullptr;
  for (const auto& [name, function] : kControls) {
    if (node.op_type == name) return function;
  }
  return nullptr;
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

Result<Interpreter::Computed> Interpreter::compute(const NodeData& node, bool shapes_alone,
                                                   std::vector<const EvaluatedValue*> inputs,
                                                   Status (*function)(OpCall&)) {
  const bool halves = computes_halves(node, inputs);
  const std::vector<const EvaluatedValue*> given = inputs;
  std::deque<EvaluatedValue> copies;
  if (halves) MANTISSA_RETURN_IF_ERROR(widen_inputs(inputs, copies));
  OpCall call(node, opset_of(node, opset), shapes_alone, std::move(inputs), *pool);
  const Status status = function(call);
  if (!status.ok() && call.undetermined()) return Computed{unknown_outputs(node), true};
  if (!status.ok()) return status.error();
  Computed computed{call.take_outputs(), false};
  if (halves) MANTISSA_RETURN_IF_ERROR(narrow_outputs(node, given, computed.outputs));
  return computed;
}

// Shapes first: they say whether the constants have room.
Result<std::vector<EvaluatedValue>> Interpreter::run_known(
    const NodeData& node, std::vector<const EvaluatedValue*> inputs, Status (*function)(OpCall&)) {
  std::deque<EvaluatedValue> copies;
  MANTISSA_RETURN_IF_ERROR(align(inputs, false, copies));
  MANTISSA_ASSIGN(const Computed shapes, compute(node, true, inputs, function));
  if (shapes.undetermined) return shapes.outputs;
  const std::vector<EvaluatedValue>& expected = shapes.outputs;
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
  MANTISSA_ASSIGN(Computed computed, compute(node, false, std::move(inputs), function));
  return std::move(computed.outputs);
}

Result<std::vector<EvaluatedValue>> Interpreter::run_operator(const NodeData& node,
                                                              const Scope& scope) {
  if (const ControlFunction control = control_function(node)) return control(*this, node, scope);
  MANTISSA_ASSIGN(const OpRow* row, find_operator(node, opset_of(node, opset)));
  std::vector<const EvaluatedValue*> inputs;
  bool known = true;
  for (const std::string& name : node.inputs) {
    const EvaluatedValue* value = name.empty() ? nullptr : scope.find(name);
    // The node that makes it has failed, and is named.
    if (!name.empty() && (value == nullptr || !value->shaped)) return unknown_outputs(node);
    if (value != nullptr && value->kind != ValueKind::kTensor && !row->takes_sequences) {
      return invalid_input("a sequence or an optional value where a tensor is wanted");
    }
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
  MANTISSA_ASSIGN(Computed computed, compute(node, shapes_only, std::move(inputs), row->function));
  return std::move(computed.outputs);
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
