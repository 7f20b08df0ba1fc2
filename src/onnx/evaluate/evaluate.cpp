#include "onnx/evaluate/evaluate.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/sizes.h"
#include "base/system/memory_limit.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/trace.h"
#include "onnx/files/read_context.h"
#include "onnx/names_by_text.h"

namespace mantissa::onnx {
namespace {

constexpr size_t kMostListed = 8;

Status check_input(const ValueData& input, const EvaluatedValue& value) {
  const TensorData& given = value.tensor;
  if (value.kind != input.kind) {
    return invalid_input(describe("input", input.name) + " is " +
                         (input.kind == ValueKind::kTensor ? "a tensor" : "no tensor"));
  }
  if (input.kind != ValueKind::kTensor) return {};
  if (given.type != input.type) {
    return invalid_input(describe("input", input.name) + " has the type " +
                         element_name(given.type) + ", but " + element_name(input.type) +
                         " is wanted");
  }
  if (!input.has_shape) return {};
  bool fits = given.dims.size() == input.dims.size();
  for (size_t d = 0; fits && d < given.dims.size(); ++d) {
    fits = input.dims[d].size < 0 || input.dims[d].size == given.dims[d];
  }
  if (fits) return {};
  std::string wanted;
  for (const Dimension& dim : input.dims) {
    wanted += wanted.empty() ? "[" : ", ";
    wanted += dim.size >= 0      ? std::to_string(dim.size)
              : dim.name.empty() ? "any"
                                 : describe("", dim.name).substr(1);
  }
  return invalid_input(describe("input", input.name) + " has the shape " + to_text(given.dims) +
                       ", but " + (wanted.empty() ? "[" : wanted) + "] is wanted");
}

Status check_inputs(const GraphData& graph, const NamedValues& inputs) {
  std::set<std::string> known;
  for (const ValueData& input : graph.inputs) {
    known.insert(input.name);
    const auto given = inputs.find(input.name);
    if (given != inputs.end()) MANTISSA_RETURN_IF_ERROR(check_input(input, given->second));
  }
  std::string missing;
  std::string wanted;
  for (const ValueData* input : inputs_of(graph)) {
    wanted += (wanted.empty() ? "" : ", ") + describe("input", input->name).substr(6);
    if (inputs.contains(input->name)) continue;
    missing += (missing.empty() ? "" : ", ") + describe("input", input->name).substr(6);
  }
  if (!missing.empty()) return invalid_input("missing inputs: " + missing);
  for (const auto& [name, value] : inputs) {
    if (known.contains(name)) continue;
    return invalid_input("the network has no " + describe("input", name) +
                         "; its inputs: " + wanted);
  }
  return {};
}

Status check_memory(int64_t bytes) {
  const MemoryLimit limit = memory_limit();
  if (limit.bytes == 0 || bytes <= limit.bytes) return {};
  return make_error(ErrorCode::kOverBudget, "the network's values need " + format_bytes(bytes) +
                                                " at once, but there are " +
                                                format_bytes(limit.bytes));
}

}  // namespace

std::vector<const ValueData*> inputs_of(const GraphData& graph) {
  std::set<std::string_view> initialised;
  for (const TensorData& tensor : graph.initialisers) initialised.insert(tensor.name);
  std::vector<const ValueData*> inputs;
  for (const ValueData& input : graph.inputs) {
    if (!initialised.contains(input.name)) inputs.push_back(&input);
  }
  return inputs;
}

Shapes input_shapes(const ModelData& model, const Shapes& given) {
  Shapes shapes;
  for (const ValueData* input : inputs_of(model.graph)) {
    const auto found = given.find(input->name);
    if (found != given.end()) {
      shapes[input->name] = found->second;
      continue;
    }
    if (!input->has_shape) continue;
    Dims dims;
    for (const Dimension& dim : input->dims) dims.push_back(dim.size);
    if (!dims.empty() && dims[0] < 0) dims[0] = 1;
    if (std::all_of(dims.begin(), dims.end(), [](int64_t size) { return size >= 0; })) {
      shapes[input->name] = dims;
    }
  }
  return shapes;
}

Result<std::vector<EvaluatedValue>> evaluate_values(const ModelData& model,
                                                    const NamedValues& inputs, ThreadPool& pool) {
  MANTISSA_RETURN_IF_ERROR(check_inputs(model.graph, inputs));
  Shapes shapes;
  for (const auto& [name, value] : inputs) shapes[name] = value.tensor.dims;
  MANTISSA_ASSIGN(const Survey facts, survey(model, shapes));
  if (!facts.problems.empty()) return invalid_input(describe_problems(facts.problems));
  MANTISSA_RETURN_IF_ERROR(check_memory(facts.peak_bytes));

  MANTISSA_ASSIGN(Interpreter interpreter, start(model, false, pool));
  Scope scope;
  for (const auto& [name, value] : inputs) scope.values.emplace(name, value);
  add_initialisers(model.graph, scope);
  std::vector<EvaluatedValue> values = interpreter.run_graph(model.graph, scope, true);
  if (!interpreter.problems.empty()) {
    return invalid_input(describe_problems(interpreter.problems));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].known) continue;
    return invalid_input(describe("output", model.graph.outputs[i].name) + " has no numbers");
  }
  return values;
}

Result<std::vector<TensorData>> evaluate(const ModelData& model, const Tensors& inputs,
                                         ThreadPool& pool) {
  NamedValues values;
  for (const auto& [name, tensor] : inputs) {
    values.emplace(name, EvaluatedValue{tensor, true, true});
  }
  MANTISSA_ASSIGN(const std::vector<EvaluatedValue> results, evaluate_values(model, values, pool));
  std::vector<TensorData> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = model.graph.outputs[i].name;
    if (results[i].kind != ValueKind::kTensor) {
      return invalid_input(describe("output", name) + " is a sequence or an optional value");
    }
    outputs.push_back(results[i].tensor);
    outputs.back().name = name;
  }
  return outputs;
}

std::string describe_problems(const std::vector<Problem>& problems) {
  NamesByText groups;
  for (const Problem& problem : problems) {
    add_name(groups, describe("", problem.op_type).substr(1) + ": " + problem.reason,
             describe("", problem.node).substr(1));
  }
  std::string text = std::to_string(problems.size()) +
                     (problems.size() == 1 ? " node is" : " nodes are") + " not supported: ";
  for (size_t i = 0; i < groups.size() && i < kMostListed; ++i) {
    const auto& [key, nodes] = groups[i];
    text += (i == 0 ? "" : "; ") + key + " (";
    for (size_t k = 0; k < nodes.size() && k < 3; ++k) text += (k == 0 ? "" : ", ") + nodes[k];
    if (nodes.size() > 3) text += " and " + std::to_string(nodes.size() - 3) + " more";
    text += ")";
  }
  if (groups.size() > kMostListed) {
    text += "; and " + std::to_string(groups.size() - kMostListed) + " more reasons";
  }
  return text;
}

}  // namespace mantissa::onnx
