#include <set>
#include <utility>

#include "base/sizes.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/trace.h"
#include "onnx/evaluate/work.h"

namespace mantissa::onnx {
namespace {

// Constants may outgrow the tensors of the file that far.
constexpr int64_t kConstantBytes = int64_t{64} << 20;
constexpr int64_t kConstantFactor = 3;
// Computing constants takes a second or two at most.
constexpr int64_t kConstantWork = int64_t{1} << 29;

}  // namespace

Result<Interpreter> start(const ModelData& model, bool shapes_only, ThreadPool& pool) {
  const auto opset = model.opsets.find("");
  if (opset == model.opsets.end()) return invalid_input("the file names no operator set of ONNX");
  if (opset->second < 1 || opset->second > kNewestOpset) {
    return invalid_input("operator set " + std::to_string(opset->second) +
                         " of ONNX is not supported: those from 1 to " +
                         std::to_string(kNewestOpset) +
                         " are (a version converter, as onnx.version_converter, makes it one)");
  }
  Interpreter interpreter;
  interpreter.opset = opset->second;
  interpreter.shapes_only = shapes_only;
  interpreter.pool = &pool;
  int64_t bytes = 0;
  for (const TensorData& tensor : model.graph.initialisers) {
    bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  for (const NodeData& node : model.graph.nodes) {
    for (const NodeAttribute& attribute : node.attributes) {
      const auto* tensor = std::get_if<TensorData>(&attribute.value);
      if (tensor != nullptr) bytes += static_cast<int64_t>(tensor->bytes.size());
    }
  }
  interpreter.constant_bytes = kConstantBytes + kConstantFactor * bytes;
  interpreter.constant_work = kConstantWork + kConstantFactor * bytes;
  return interpreter;
}

Result<Scope> shaped_scope(const ModelData& model, const Shapes& inputs) {
  Scope scope;
  for (const ValueData& input : model.graph.inputs) {
    const auto found = inputs.find(input.name);
    if (found == inputs.end()) continue;
    if (element_bits(input.type) == 0) continue;
    MANTISSA_RETURN_IF_ERROR(value_bytes(input.type, found->second));
    scope.values[input.name] = {{input.name, input.type, found->second, {}, nullptr}, true, false};
  }
  // Existing values stay: an input takes precedence over its default.
  add_initialisers(model.graph, scope);
  return scope;
}

Result<Survey> survey(const ModelData& model, const Shapes& inputs) {
  ThreadPool alone(1);
  MANTISSA_ASSIGN(Interpreter interpreter, start(model, true, alone));
  MANTISSA_ASSIGN(Scope scope, shaped_scope(model, inputs));
  Survey result;
  std::set<std::string, std::less<>> parameters;
  for (const TensorData& tensor : model.graph.initialisers) parameters.insert(tensor.name);
  interpreter.observe = [&](const NodeData& node, const Scope& values,
                            const std::vector<EvaluatedValue>& outputs) {
    if (node.op_type == "Constant") {
      for (const std::string& name : node.outputs) parameters.insert(name);
      return;
    }
    NodeFacts facts{&node, outputs, 0, 0};
    std::vector<const EvaluatedValue*> read;
    for (const std::string& name : node.inputs) {
      const EvaluatedValue* value = name.empty() ? nullptr : values.find(name);
      read.push_back(value);
      if (value == nullptr || !value->shaped || value->tensor.type != ElementType::kFloat) continue;
      const bool is_constant = value->tensor.dims.empty();  // a limit of Clip, an epsilon
      if (!is_constant && parameters.erase(name) > 0)
        facts.parameters += count_of(value->tensor.dims);
    }
    facts.multiply_adds = multiply_adds_of(node, read, outputs);
    result.nodes.push_back(std::move(facts));
  };
  result.outputs = interpreter.run_graph(model.graph, scope, true);
  result.problems = std::move(interpreter.problems);
  result.peak_bytes = interpreter.peak_bytes;
  return result;
}

}  // namespace mantissa::onnx
