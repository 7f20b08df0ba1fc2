// Calls of functions become the nodes of their bodies.
#include <algorithm>
#include <iterator>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "onnx/files/functions.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kNameBytes = 64;  // of a name in a set or a map, without its characters

int64_t bytes_of(const std::vector<std::string>& texts) {
  int64_t bytes = 0;
  for (const std::string& text : texts) bytes += kNameBytes + std::ssize(text);
  return bytes;
}

// Memory of a copy, without graphs in attributes, whose nodes are counted one by one.
int64_t bytes_of(const NodeData& node) {
  int64_t bytes = int64_t{sizeof(NodeData)} + bytes_of(node.inputs) + bytes_of(node.outputs);
  for (const NodeAttribute& attribute : node.attributes) {
    bytes += int64_t{sizeof(NodeAttribute)};
    if (const auto* text = std::get_if<std::string>(&attribute.value)) bytes += std::ssize(*text);
    if (const auto* list = std::get_if<std::vector<float>>(&attribute.value)) {
      bytes += 4 * std::ssize(*list);
    }
    if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value)) {
      bytes += 8 * std::ssize(*list);
    }
    if (const auto* list = std::get_if<std::vector<std::string>>(&attribute.value)) {
      bytes += bytes_of(*list);
    }
  }
  return bytes;
}

std::string described(const FunctionData& function) {
  const std::string domain = function.domain.empty() ? "" : function.domain + ".";
  return describe("function", domain + function.name);
}

std::string key_of(const std::string& domain, const std::string& name,
                   const std::string& overload) {
  return std::to_string(domain.size()) + domain + std::to_string(name.size()) + name + overload;
}

// New names for the names of a body.
using Names = std::unordered_map<std::string, std::string>;

class Inliner {
 public:
  Inliner(const std::vector<FunctionData>& functions, ReadBudget& budget, ModelData& model)
      : budget_(budget), model_(model) {
    for (const FunctionData& function : functions) {
      functions_.emplace(key_of(function.domain, function.name, function.overload), &function);
    }
  }

  Status run() {
    take_names(model_.graph);
    return expand(model_.graph.nodes);
  }

 private:
  // A call of a function while its body takes its place.
  struct Call {
    const NodeData& node;
    const FunctionData& function;
    std::string prefix;
    Names names;
  };

  void take_names(const GraphData& graph);
  const FunctionData* find(const NodeData& node) const;
  Status expand(std::vector<NodeData>& nodes);
  Status expand_graphs(NodeData& node);
  Status add_body(const NodeData& node, const FunctionData& function, std::vector<NodeData>& all);
  Status check_call(const NodeData& node, const FunctionData& function) const;
  std::vector<NodeData> name_values(Call& call) const;
  Status take_attributes(Call& call, NodeData& node);
  Status rename(Call& call, NodeData& node);
  Status rename(Call& call, GraphData& graph);
  Result<std::string> new_name(const Call& call, const std::string& name);
  Status replace(Call& call, std::string& name);

  std::unordered_map<std::string, const FunctionData*> functions_;
  ReadBudget& budget_;
  ModelData& model_;
  std::vector<const FunctionData*> stack_;  // that are being inlined
  std::unordered_set<std::string> taken_;
  int64_t copies_ = 1;
};

void Inliner::take_names(const GraphData& graph) {
  for (const TensorData& tensor : graph.initialisers) taken_.insert(tensor.name);
  for (const ValueData& input : graph.inputs) taken_.insert(input.name);
  for (const NodeData& node : graph.nodes) {
    taken_.insert(node.outputs.begin(), node.outputs.end());
    for (const NodeAttribute& attribute : node.attributes) {
      const auto* inner = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
      if (inner != nullptr) take_names(**inner);
    }
  }
}

const FunctionData* Inliner::find(const NodeData& node) const {
  const auto found = functions_.find(key_of(node.domain, node.op_type, node.overload));
  return found == functions_.end() ? nullptr : found->second;
}

Status Inliner::expand(std::vector<NodeData>& nodes) {
  std::vector<NodeData> all;
  for (NodeData& node : nodes) {
    if (const FunctionData* function = find(node)) {
      MANTISSA_RETURN_IF_ERROR(add_body(node, *function, all));
      continue;
    }
    MANTISSA_RETURN_IF_ERROR(expand_graphs(node));
    all.push_back(std::move(node));
  }
  nodes = std::move(all);
  return {};
}

Status Inliner::expand_graphs(NodeData& node) {
  for (NodeAttribute& attribute : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
    if (graph == nullptr) continue;
    auto copy = std::make_shared<GraphData>(**graph);
    MANTISSA_RETURN_IF_ERROR(expand(copy->nodes));
    attribute.value = std::shared_ptr<const GraphData>(std::move(copy));
  }
  return {};
}

Status Inliner::check_call(const NodeData& node, const FunctionData& function) const {
  if (std::find(stack_.begin(), stack_.end(), &function) != stack_.end()) {
    return invalid_input(described(function) + " calls itself");
  }
  if (std::ssize(stack_) >= kMostNesting) {
    return invalid_input("functions call each other more than " + std::to_string(kMostNesting) +
                         " deep");
  }
  if (node.inputs.size() <= function.inputs.size() &&
      node.outputs.size() <= function.outputs.size()) {
    return {};
  }
  return invalid_input(describe("node", node.name) + " has " + std::to_string(node.inputs.size()) +
                       " inputs and " + std::to_string(node.outputs.size()) + " outputs, and the " +
                       described(function) + " " + std::to_string(function.inputs.size()) +
                       " and " + std::to_string(function.outputs.size()));
}

Status Inliner::add_body(const NodeData& node, const FunctionData& function,
                         std::vector<NodeData>& all) {
  MANTISSA_RETURN_IF_ERROR(check_call(node, function));
  // A body of no nodes costs something, too.
  MANTISSA_RETURN_IF_ERROR(budget_.take_nodes(1 + std::ssize(function.nodes)));
  const auto opset = function.opsets.find("");
  if (opset != function.opsets.end()) model_.opsets.emplace("", opset->second);
  Call call{
      node, function, node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name, {}};
  std::vector<NodeData> copies = name_values(call), body;
  for (const NodeData& inner : function.nodes) {
    MANTISSA_RETURN_IF_ERROR(budget_.take_bytes(bytes_of(inner)));
    NodeData& copy = body.emplace_back(inner);
    if (opset != function.opsets.end() && opset->second != model_.opsets[""]) {
      copy.opset = opset->second;
    }
    MANTISSA_RETURN_IF_ERROR(take_attributes(call, copy));
    MANTISSA_RETURN_IF_ERROR(rename(call, copy));
  }
  std::move(copies.begin(), copies.end(), std::back_inserter(body));
  stack_.push_back(&function);
  MANTISSA_RETURN_IF_ERROR(expand(body));
  stack_.pop_back();
  std::move(body.begin(), body.end(), std::back_inserter(all));
  return {};
}

// The call names inputs and outputs. An output that is an input, or another output, is a copy.
std::vector<NodeData> Inliner::name_values(Call& call) const {
  std::vector<NodeData> copies;
  const NodeData& node = call.node;
  for (size_t i = 0; i < call.function.inputs.size(); ++i) {
    call.names[call.function.inputs[i]] = i < node.inputs.size() ? node.inputs[i] : "";
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string& inner = call.function.outputs[i];
    if (node.outputs[i].empty()) continue;
    const auto [found, is_new] = call.names.emplace(inner, node.outputs[i]);
    if (is_new) continue;
    NodeData& copy = copies.emplace_back();
    copy.name = call.prefix + "/" + inner;
    copy.op_type = "Identity";
    copy.inputs = {found->second};
    copy.outputs = {node.outputs[i]};
  }
  return copies;
}

Status Inliner::take_attributes(Call& call, NodeData& node) {
  std::vector<NodeAttribute> attributes;
  for (NodeAttribute& attribute : node.attributes) {
    if (attribute.refers_to.empty()) {
      attributes.push_back(std::move(attribute));
      continue;
    }
    for (const auto* given : {&call.node.attributes, &call.function.defaults}) {
      const auto found = std::find_if(given->begin(), given->end(), [&](const NodeAttribute& a) {
        return a.name == attribute.refers_to;
      });
      if (found == given->end()) continue;
      attributes.push_back({attribute.name, found->value, {}});
      break;
    }
  }
  node.attributes = std::move(attributes);
  return budget_.take_bytes(bytes_of(node));
}

Result<std::string> Inliner::new_name(const Call& call, const std::string& name) {
  MANTISSA_RETURN_IF_ERROR(
      budget_.take_bytes(2 * (std::ssize(call.prefix) + std::ssize(name) + kNameBytes)));
  const std::string wanted = call.prefix + "/" + name;
  std::string free = wanted;
  while (!taken_.insert(free).second) free = wanted + "_" + std::to_string(++copies_);
  return free;
}

Status Inliner::replace(Call& call, std::string& name) {
  if (name.empty()) return {};
  auto found = call.names.find(name);
  if (found == call.names.end()) {
    MANTISSA_ASSIGN(std::string free, new_name(call, name));
    found = call.names.emplace(name, std::move(free)).first;
  }
  name = found->second;
  return {};
}

Status Inliner::rename(Call& call, NodeData& node) {
  MANTISSA_RETURN_IF_ERROR(
      budget_.take_bytes(std::ssize(call.prefix) + std::ssize(node.name) + kNameBytes));
  node.name = call.prefix + "/" +
              (node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name);
  for (std::string& input : node.inputs) MANTISSA_RETURN_IF_ERROR(replace(call, input));
  for (NodeAttribute& attribute : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
    if (graph == nullptr) continue;
    auto copy = std::make_shared<GraphData>(**graph);
    MANTISSA_RETURN_IF_ERROR(rename(call, *copy));
    attribute.value = std::shared_ptr<const GraphData>(std::move(copy));
  }
  for (std::string& output : node.outputs) MANTISSA_RETURN_IF_ERROR(replace(call, output));
  return {};
}

// Names of an inner graph of a body belong to the body: ONNX lets none hide another.
Status Inliner::rename(Call& call, GraphData& graph) {
  MANTISSA_RETURN_IF_ERROR(budget_.take_nodes(std::ssize(graph.nodes)));
  MANTISSA_RETURN_IF_ERROR(budget_.take_tensors(std::ssize(graph.initialisers)));
  for (TensorData& tensor : graph.initialisers) {
    MANTISSA_RETURN_IF_ERROR(budget_.take_bytes(int64_t{sizeof(TensorData)}));
    MANTISSA_RETURN_IF_ERROR(replace(call, tensor.name));
  }
  graph.values.clear();
  for (ValueData& input : graph.inputs) MANTISSA_RETURN_IF_ERROR(replace(call, input.name));
  for (NodeData& node : graph.nodes) {
    MANTISSA_RETURN_IF_ERROR(budget_.take_bytes(bytes_of(node)));
    MANTISSA_RETURN_IF_ERROR(take_attributes(call, node));
    MANTISSA_RETURN_IF_ERROR(rename(call, node));
  }
  for (ValueData& output : graph.outputs) MANTISSA_RETURN_IF_ERROR(replace(call, output.name));
  return {};
}

}  // namespace

Status inline_functions(const std::vector<FunctionData>& functions, ReadBudget& budget,
                        ModelData& model) {
  if (functions.empty()) return {};
  return Inliner(functions, budget, model).run();
}

}  // namespace mantissa::onnx
