#include "graph/graph.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "graph/op.h"

namespace mantissa {
namespace {

std::vector<Shape> shapes_of(const Graph& graph, const std::vector<int>& values) {
  std::vector<Shape> shapes;
  for (const int value : values) shapes.push_back(graph.values[value].shape);
  return shapes;
}

Error in_node(const Node& node, const std::string& what) {
  return invalid_input("node '" + node.name + "' (" + node.op->name + "): " + what);
}

// Whether a value is bytes that the batch brings, without an exponent.
bool is_pixels(const Value& value) {
  return value.producer < 0 && value.element == Element::kMantissa;
}

std::string kind_of(const Value& value) {
  constexpr std::array<const char*, 4> kNames = {"mantissas", "indices", "numbers",
                                                 "a real number"};
  return is_pixels(value) ? "pixels" : kNames[static_cast<size_t>(value.element)];
}

// Checks that the node's input i is of the kind that its op reads there.
Status verify_input(const Graph& graph, const Node& node, size_t i) {
  const std::span<const Element> elements = node.op->input_elements;
  Value wanted = graph.values[node.inputs[i]];
  const std::string is = kind_of(wanted);
  wanted.element = i < elements.size() ? elements[i] : Element::kMantissa;
  wanted.producer = wanted.element == Element::kPixel ? -1 : 0;
  if (wanted.element == Element::kPixel) wanted.element = Element::kMantissa;
  if (kind_of(wanted) == is) return {};
  return in_node(node, "input " + std::to_string(i) + ", '" + wanted.name + "', is " + is +
                           "; wants " + kind_of(wanted));
}

Status verify_inputs(const Graph& graph, const Node& node, const std::vector<bool>& produced) {
  const int values = static_cast<int>(graph.values.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int input = node.inputs[i];
    if (input < 0 || input >= values || !produced[input]) {
      return in_node(node, "reads a value that nothing before it produces");
    }
    MANTISSA_RETURN_IF_ERROR(verify_input(graph, node, i));
  }
  return {};
}

}  // namespace

std::optional<int64_t> element_count(const Shape& shape) {
  int64_t count = 1;
  for (int axis = 0; axis < shape.rank; ++axis) {
    if (shape[axis] < 1 || shape[axis] > kMostElements / count) return std::nullopt;
    count *= shape[axis];
  }
  return count;
}

int64_t Graph::trained_parameters() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters) {
    if (parameter.trained) count += parameter.shape.count();
  }
  return count;
}

Status Graph::check_no_blocks(std::string_view who) const {
  const auto found = std::ranges::find(parameters, Storage::kBlocks, &Parameter::storage);
  if (found == parameters.end()) return {};
  return invalid_input("'" + found->name + "' is in blocks (" + block_kind_name(found->blocks) +
                       "), and " + std::string(who) +
                       "; import writes weights as float32 unless --weights blocks is given");
}

std::vector<std::vector<int>> readers_of(const Graph& graph) {
  std::vector<std::vector<int>> readers(graph.values.size());
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    for (const int input : graph.nodes[n].inputs) {
      if (readers[input].empty() || readers[input].back() != n) readers[input].push_back(n);
    }
  }
  return readers;
}

bool Graph::is_output(int value) const {
  return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

bool Graph::is_loss(int node) const {
  return std::find(losses.begin(), losses.end(), node) != losses.end();
}

Result<std::vector<ValueType>> output_types(const Op& op, const Attributes& attributes,
                                            std::span<const Shape> inputs) {
  MANTISSA_ASSIGN(const Attributes completed, complete(attributes, op.attributes));
  if (op.infer_own != nullptr) return op.infer_own(op, completed, inputs);
  if (op.infer_outputs != nullptr) return op.infer_outputs(completed, inputs);
  MANTISSA_ASSIGN(const Shape shape, op.infer_shape(completed, inputs));
  return std::vector<ValueType>{{shape}};
}

Result<Shape> output_shape(const Op& op, const Attributes& attributes,
                           std::span<const Shape> inputs) {
  MANTISSA_ASSIGN(const std::vector<ValueType> types, output_types(op, attributes, inputs));
  return types[0].shape;
}

GraphBuilder::GraphBuilder(std::string name, const Shape& pixels) {
  graph_.name = std::move(name);
  add_input("pixels", pixels, Element::kMantissa);
}

int GraphBuilder::add_input(std::string name, const Shape& shape, Element element) {
  const DataType type = element == Element::kMantissa ? DataType::kUint8 : DataType::kInt32;
  graph_.inputs.push_back(static_cast<int>(graph_.values.size()));
  graph_.values.push_back({std::move(name), shape, -1, 0, element, type});
  return graph_.inputs.back();
}

int GraphBuilder::add_numbers(std::string name, const Shape& shape, int exponent) {
  const int value = add_input(std::move(name), shape, Element::kNumber);
  graph_.values[value].type = DataType::kInt16;
  graph_.values[value].exponent = exponent;
  return value;
}

namespace {

Node node_of(const Op& op, std::string name, std::vector<int> inputs) {
  Node node;
  node.name = std::move(name);
  node.op = &op;
  node.inputs = std::move(inputs);
  return node;
}

bool is_same_kind(const Parameter& a, const Parameter& b) {
  return a.shape == b.shape && a.storage == b.storage && a.blocks == b.blocks &&
         a.trained == b.trained;
}

}  // namespace

Status GraphBuilder::create_parameters(Node& node, std::span<const Shape> shapes,
                                       const Node* shares_with) {
  if (node.op->parameters == nullptr) return {};
  std::vector<Parameter> wanted = node.op->parameters(node.attributes, shapes);
  for (const Parameter& parameter : wanted) {
    if (element_count(parameter.shape)) continue;
    return invalid_input(parameter.name + " of " + to_string(parameter.shape) +
                         ": too many elements");
  }
  if (shares_with == nullptr) {
    for (Parameter& parameter : wanted) {
      parameter.name = node.name + "." + parameter.name;
      node.parameters.push_back(static_cast<int>(graph_.parameters.size()));
      graph_.parameters.push_back(std::move(parameter));
    }
    return {};
  }
  node.parameters = shares_with->parameters;
  bool fits = wanted.size() == node.parameters.size();
  for (size_t i = 0; fits && i < wanted.size(); ++i) {
    fits = is_same_kind(wanted[i], graph_.parameters[node.parameters[i]]);
  }
  return fits ? Status{}
              : invalid_input("cannot use the parameters of '" + shares_with->name + "'");
}

std::vector<int> GraphBuilder::add_node(Node node, const Attributes& attributes,
                                        const Node* shares_with) {
  const auto refuse = [&](Error error) {
    if (status_.ok()) status_ = std::move(error);
    return std::vector<int>{0};
  };
  const Status inputs = verify_inputs(graph_, node, std::vector(graph_.values.size(), true));
  if (!inputs.ok()) return refuse(inputs.error());
  const std::vector<Shape> shapes = shapes_of(graph_, node.inputs);
  const auto types = output_types(*node.op, attributes, shapes);
  if (!types.ok()) return refuse(in_node(node, types.error().message));
  node.attributes = *complete(attributes, node.op->attributes);
  const Status parameters = create_parameters(node, shapes, shares_with);
  if (!parameters.ok()) return refuse(in_node(node, parameters.error().message));
  for (const ValueType& type : *types) {
    if (!element_count(type.shape)) {
      return refuse(in_node(node, "makes " + to_string(type.shape) + ": too many elements"));
    }
  }
  for (int port = 0; port < static_cast<int>(types->size()); ++port) {
    const std::string name = port == 0 ? node.name : node.name + "." + std::to_string(port);
    node.outputs.push_back(static_cast<int>(graph_.values.size()));
    graph_.values.push_back({name, (*types)[port].shape, static_cast<int>(graph_.nodes.size()),
                             port, (*types)[port].element});
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

int GraphBuilder::add(const Op& op, std::string name, std::vector<int> inputs,
                      const Attributes& attributes) {
  return add_all(op, std::move(name), std::move(inputs), attributes)[0];
}

std::vector<int> GraphBuilder::add_all(const Op& op, std::string name, std::vector<int> inputs,
                                       const Attributes& attributes) {
  return add_node(node_of(op, std::move(name), std::move(inputs)), attributes, nullptr);
}

int GraphBuilder::add_sharing(int with, const Op& op, std::string name, std::vector<int> inputs,
                              const Attributes& attributes) {
  const int producer = graph_.values[with].producer;
  if (producer < 0) {
    if (status_.ok()) status_ = invalid_input("node '" + name + "': an input has no parameters");
    return 0;
  }
  const Node shares_with = graph_.nodes[producer];
  return add_node(node_of(op, std::move(name), std::move(inputs)), attributes, &shares_with)[0];
}

void GraphBuilder::add_loss(const Op& op, std::string name, std::vector<int> inputs,
                            const Attributes& attributes) {
  const std::string node = name;
  add_all(op, std::move(name), std::move(inputs), attributes);
  if (op.loss_unit <= 0 && status_.ok()) {
    status_ = invalid_input("node '" + node + "' (" + op.name + "): is no loss");
  }
  graph_.losses.push_back(static_cast<int>(graph_.nodes.size()) - 1);
}

Result<Graph> GraphBuilder::finish(std::vector<int> results) {
  if (!status_.ok()) return status_.error();
  graph_.outputs = std::move(results);
  MANTISSA_RETURN_IF_ERROR(verify(graph_));
  return std::move(graph_);
}

void replace_op(Node& node, const Op& op, const Attributes& attributes) {
  Result<Attributes> completed = complete(attributes, op.attributes);
  assert(completed.ok());
  node.op = &op;
  node.attributes = std::move(*completed);
}

namespace {

Status verify_outputs(const Graph& graph, int n, std::vector<bool>& produced) {
  const Node& node = graph.nodes[n];
  const int values = static_cast<int>(graph.values.size());
  MANTISSA_ASSIGN(const std::vector<ValueType> types,
                  output_types(*node.op, node.attributes, shapes_of(graph, node.inputs)));
  if (types.size() != node.outputs.size()) return in_node(node, "has other outputs than its op");
  for (int port = 0; port < static_cast<int>(types.size()); ++port) {
    const int output = node.outputs[port];
    if (output < 0 || output >= values || produced[output]) {
      return in_node(node, "produces a value that exists already");
    }
    const Value& value = graph.values[output];
    if (value.producer != n || value.port != port) {
      return in_node(node, "is not what its output names as the producer");
    }
    if (types[port] != ValueType{value.shape, value.element}) {
      return in_node(node, "has an output of another shape or kind");
    }
    produced[output] = true;
  }
  return {};
}

Status verify_node(const Graph& graph, int n, std::vector<bool>& produced) {
  const Node& node = graph.nodes[n];
  MANTISSA_RETURN_IF_ERROR(verify_inputs(graph, node, produced));
  for (const int parameter : node.parameters) {
    if (parameter < 0 || parameter >= static_cast<int>(graph.parameters.size())) {
      return in_node(node, "refers to a parameter that does not exist");
    }
  }
  MANTISSA_ASSIGN(const Attributes completed, complete(node.attributes, node.op->attributes));
  if (completed != node.attributes || !node.attributes.has_struct_of(node.op->attributes)) {
    return in_node(node, "lacks attributes");
  }
  return verify_outputs(graph, n, produced);
}

// The sums of sizes that a plan makes fit 64 bits.
Status verify_size(const Graph& graph) {
  int64_t values = 0, parameters = 0;
  const auto add = [](const std::string& name, const Shape& shape, int64_t& sum) -> Status {
    const auto count = element_count(shape);
    if (count) sum += *count;
    if (count && sum <= kMostElements) return {};
    return invalid_input("'" + name + "', " + to_string(shape) +
                         ": the network has too many elements; at most 2^36 are possible");
  };
  for (const Value& value : graph.values) {
    MANTISSA_RETURN_IF_ERROR(add(value.name, value.shape, values));
  }
  for (const Parameter& parameter : graph.parameters) {
    MANTISSA_RETURN_IF_ERROR(add(parameter.name, parameter.shape, parameters));
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  MANTISSA_RETURN_IF_ERROR(verify_size(graph));
  const int values = static_cast<int>(graph.values.size());
  std::vector<bool> produced(values, false);
  if (graph.inputs.empty()) return invalid_input("the graph has no input");
  for (const int input : graph.inputs) {
    if (input < 0 || input >= values || produced[input] || graph.values[input].producer >= 0) {
      return invalid_input("an input of the graph is not a value of its own");
    }
    produced[input] = true;
    const Value& value = graph.values[input];
    if (value.exponent < kExponentMin || value.exponent > kExponentMax) {
      return invalid_input("input '" + value.name + "': its exponent must be within -128..127");
    }
  }
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    MANTISSA_RETURN_IF_ERROR(verify_node(graph, n, produced));
  }
  if (graph.outputs.empty()) return invalid_input("the graph has no result");
  for (const int output : graph.outputs) {
    if (output < 0 || output >= values || !produced[output]) {
      return invalid_input("the graph has no result");
    }
  }
  if (std::ssize(graph.losses) > kMostLosses) {
    return invalid_input("the graph has " + std::to_string(graph.losses.size()) +
                         " losses; at most " + std::to_string(kMostLosses) + " are possible");
  }
  for (const int loss : graph.losses) {
    if (loss < 0 || loss >= static_cast<int>(graph.nodes.size()) ||
        graph.values[graph.nodes[loss].outputs[0]].element != Element::kReal) {
      return invalid_input("a loss of the graph is not a node whose first output is a real number");
    }
  }
  return {};
}

std::string to_string(const Graph& graph) {
  std::string text =
      graph.name + ": " + std::to_string(graph.trained_parameters()) + " parameters\n";
  for (const int input : graph.inputs) {
    text += "  " + graph.values[input].name + " " + to_string(graph.values[input].shape) + "\n";
  }
  for (const Node& node : graph.nodes) {
    text += "  " + node.name + " = " + node.op->name + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      text += (i == 0 ? "" : ", ") + graph.values[node.inputs[i]].name;
    }
    for (const auto& [key, value] : node.attributes.items()) {
      text += ", " + key + "=" + to_string(value);
    }
    text += ")";
    for (const int output : node.outputs) text += " " + to_string(graph.values[output].shape);
    text += "\n";
  }
  return text;
}

}  // namespace mantissa
