// Constant folding: the nodes that stay, and the constants that they read.
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "onnx/evaluate/evaluate.h"
#include "onnx/evaluate/trace.h"

namespace mantissa::onnx {
namespace {

// New names of values: the values of a branch that replaces its If, and values that are a second
// name of another.
using Names = std::unordered_map<std::string, std::string>;

const std::string& resolve(const Names& names, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

void collect_names(const GraphData& graph, std::unordered_set<std::string>& taken) {
  for (const TensorData& tensor : graph.initialisers) taken.insert(tensor.name);
  for (const ValueData& input : graph.inputs) taken.insert(input.name);
  for (const NodeData& node : graph.nodes) {
    taken.insert(node.outputs.begin(), node.outputs.end());
    for (const NodeAttribute& attribute : node.attributes) {
      const auto* inner = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
      if (inner != nullptr) collect_names(**inner, taken);
    }
  }
}

// The graph, with new names for the values that it reads from outside.
std::shared_ptr<const GraphData> renamed(const GraphData& graph, Names names);

NodeData renamed(NodeData node, const Names& names) {
  for (std::string& input : node.inputs) input = resolve(names, input);
  for (NodeAttribute& attribute : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
    if (graph != nullptr) attribute.value = renamed(**graph, names);
  }
  return node;
}

std::shared_ptr<const GraphData> renamed(const GraphData& graph, Names names) {
  auto copy = std::make_shared<GraphData>(graph);
  // The graph's own values hide those outside.
  for (const TensorData& tensor : copy->initialisers) names.erase(tensor.name);
  for (const ValueData& input : copy->inputs) names.erase(input.name);
  for (NodeData& node : copy->nodes) {
    node = renamed(std::move(node), names);
    for (const std::string& output : node.outputs) names.erase(output);
  }
  for (ValueData& output : copy->outputs) output.name = resolve(names, output.name);
  return copy;
}

class Folder {
 public:
  Folder(Interpreter& interpreter, Scope& scope) : interpreter_(interpreter), scope_(scope) {}

  void fold(const GraphData& graph, Names& names);
  Result<GraphData> finish(const GraphData& original, Names& names);
  void take_names(const GraphData& graph) { collect_names(graph, taken_); }

 private:
  bool is_copy(const NodeData& node, const std::vector<EvaluatedValue>& outputs) const;
  // The branch that an If takes for certain, or null.
  std::shared_ptr<const GraphData> certain_branch(const NodeData& node) const;
  void inline_branch(const NodeData& node, const GraphData& branch, Names& names);
  std::string fresh(const std::string& name);
  ValueData describe_value(const std::string& name) const;

  Interpreter& interpreter_;
  Scope& scope_;
  std::vector<NodeData> kept_;
  std::unordered_set<std::string> taken_;
};

std::string Folder::fresh(const std::string& name) {
  std::string result = name;
  for (int i = 2; !taken_.insert(result).second; ++i) result = name + "_" + std::to_string(i);
  return result;
}

bool Folder::is_copy(const NodeData& node, const std::vector<EvaluatedValue>& outputs) const {
  if (!node.domain.empty() || node.outputs.size() != 1 || node.inputs.empty()) return false;
  if (node.op_type == "Identity") return true;
  if (node.op_type != "Cast" && node.op_type != "CastLike") return false;
  const EvaluatedValue* input = scope_.find(node.inputs[0]);
  return input != nullptr && input->shaped && outputs[0].shaped &&
         input->tensor.type == outputs[0].tensor.type;
}

std::shared_ptr<const GraphData> Folder::certain_branch(const NodeData& node) const {
  if (node.op_type != "If" || !node.domain.empty() || node.inputs.size() != 1) return nullptr;
  const EvaluatedValue* condition = scope_.find(node.inputs[0]);
  if (condition == nullptr || !condition->known || condition->tensor.type != ElementType::kBool ||
      condition->tensor.bytes.size() != 1) {
    return nullptr;
  }
  const char* wanted = condition->tensor.bytes[0] == std::byte{0} ? "else_branch" : "then_branch";
  for (const NodeAttribute& attribute : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
    if (attribute.name != wanted || graph == nullptr) continue;
    return (*graph)->outputs.size() == node.outputs.size() ? *graph : nullptr;
  }
  return nullptr;
}

// The branch's nodes follow those that are kept, under names that nobody has.
void Folder::inline_branch(const NodeData& node, const GraphData& branch, Names& names) {
  Names inner = names;
  for (const TensorData& tensor : branch.initialisers) {
    inner[tensor.name] = fresh(tensor.name);
    scope_.values[inner[tensor.name]] =
        EvaluatedValue{tensor, element_bits(tensor.type) != 0, true};
  }
  fold(branch, inner);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    names[node.outputs[i]] = resolve(inner, branch.outputs[i].name);
  }
}

void Folder::fold(const GraphData& graph, Names& names) {
  for (const NodeData& original : graph.nodes) {
    NodeData node = renamed(original, names);
    if (const auto branch = certain_branch(node)) {
      inline_branch(node, *branch, names);
      continue;
    }
    for (std::string& output : node.outputs) {
      const std::string name = output;
      names.erase(name);
      if (scope_.find(name) == nullptr) continue;
      output = fresh(name);
      names[name] = output;
    }
    std::vector<EvaluatedValue> outputs = interpreter_.run_node(node, scope_);
    bool known = !outputs.empty();
    for (const EvaluatedValue& value : outputs) {
      // No initialiser holds a sequence.
      known = known && value.known && value.kind == ValueKind::kTensor;
    }
    if (!known && is_copy(node, outputs)) {
      names[original.outputs[0]] = node.inputs[0];
      continue;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!node.outputs[i].empty()) scope_.values[node.outputs[i]] = std::move(outputs[i]);
    }
    if (!known) kept_.push_back(std::move(node));
  }
}

ValueData Folder::describe_value(const std::string& name) const {
  const EvaluatedValue* value = scope_.find(name);
  ValueData result;
  result.name = name;
  if (value == nullptr || !value->shaped || value->kind != ValueKind::kTensor) return result;
  result.type = value->tensor.type;
  result.has_shape = true;
  for (const int64_t size : value->tensor.dims) result.dims.push_back({size, ""});
  return result;
}

Result<GraphData> Folder::finish(const GraphData& original, Names& names) {
  GraphData graph;
  graph.name = original.name;
  graph.inputs.clear();
  for (const ValueData* input : inputs_of(original)) graph.inputs.push_back(*input);
  std::unordered_map<std::string, size_t> makers;
  for (size_t i = 0; i < kept_.size(); ++i) {
    for (const std::string& output : kept_[i].outputs) makers.emplace(output, i);
  }
  // An output that is a second name of another value gives that value its name, if possible.
  Names second;
  std::unordered_set<std::string> outputs;
  for (const ValueData& output : original.outputs) outputs.insert(output.name);
  for (const ValueData& output : original.outputs) {
    graph.outputs.push_back(output);
    const std::string source = resolve(names, output.name);
    if (source == output.name) continue;
    if (makers.contains(source) && !outputs.contains(source) && !second.contains(source)) {
      second[source] = output.name;
      continue;
    }
    const EvaluatedValue* value = scope_.find(source);
    if (value != nullptr) scope_.values[output.name] = *value;
    if (value != nullptr && value->known && value->kind == ValueKind::kTensor) continue;
    NodeData copy;
    copy.op_type = "Identity";
    copy.inputs = {source};
    copy.outputs = {output.name};
    kept_.push_back(copy);
  }
  for (NodeData& node : kept_) {
    node = renamed(std::move(node), second);
    for (std::string& output : node.outputs) {
      const std::string name = output;
      output = resolve(second, name);
      if (output == name) continue;
      if (const EvaluatedValue* value = scope_.find(name)) scope_.values[output] = *value;
    }
  }
  // Constants that are still read.
  std::unordered_set<std::string> done;
  const auto add_constant = [&](const std::string& name) {
    const EvaluatedValue* value = scope_.find(name);
    if (value == nullptr || !value->known || value->kind != ValueKind::kTensor ||
        !done.insert(name).second) {
      return;
    }
    TensorData tensor = value->tensor;
    tensor.name = name;
    graph.initialisers.push_back(std::move(tensor));
  };
  for (const NodeData& node : kept_) for_each_read(node, add_constant);
  for (const ValueData& output : graph.outputs) add_constant(output.name);
  for (const NodeData& node : kept_) {
    for (const std::string& output : node.outputs) {
      if (output.empty() || outputs.contains(output)) continue;
      graph.values.push_back(describe_value(output));
    }
  }
  for (ValueData& output : graph.outputs) {
    const ValueData found = describe_value(output.name);
    if (found.has_shape) output = found;
  }
  graph.nodes = std::move(kept_);
  return graph;
}

}  // namespace

Result<ModelData> fold_constants(ModelData model, const Shapes& inputs) {
  ThreadPool alone(1);
  MANTISSA_ASSIGN(Interpreter interpreter, start(model, true, alone));
  MANTISSA_ASSIGN(Scope scope, shaped_scope(model, inputs));
  Folder folder(interpreter, scope);
  folder.take_names(model.graph);
  Names names;
  folder.fold(model.graph, names);
  MANTISSA_ASSIGN(model.graph, folder.finish(model.graph, names));
  return model;
}

}  // namespace mantissa::onnx
