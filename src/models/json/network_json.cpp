// Writing networks as JSON, and reading files of them; network_reader.cpp makes a graph of a text.
#include "models/json/network_json.h"

#include <vector>

#include "base/files/atomic_file.h"
#include "base/hash.h"
#include "graph/sharing.h"
#include "models/json/network_entries.h"

namespace mantissa {
namespace {

// "[28, 28, 1]" of numbers and shapes, as to_string prints them; this is for names.
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + json_quoted(name);
  return "[" + text + "]";
}

std::string attribute_text(const AttributeSpec& spec, const AttributeValue& value) {
  if (is_flag(spec)) return std::get<int64_t>(value) != 0 ? "true" : "false";
  if (const auto* word = std::get_if<std::string>(&value)) return json_quoted(*word);
  return to_string(value);
}

// Attributes that differ from their defaults: so attributes that an operator gets later change no
// text.
std::string attributes_text(const Node& node) {
  std::string text;
  for (const AttributeSpec& spec : node.op->attributes.specs) {
    for (const auto& [name, value] : node.attributes.items()) {
      if (name != spec.name || (!spec.is_required && value == default_of(spec))) continue;
      text += (text.empty() ? "" : ", ") + json_quoted(name) + ": " + attribute_text(spec, value);
    }
  }
  return text;
}

std::string property(const char* name, const std::string& value, const std::string& text) {
  return (text.empty() ? "" : ", ") + json_quoted(name) + ": " + value;
}

// Properties of a node's parameters that differ from the ones that its op gives them.
std::string parameters_text(const Graph& graph, const Node& node) {
  std::string all;
  const std::vector<Parameter> usual = usual_parameters(graph, node);
  for (size_t i = 0; i < usual.size() && i < node.parameters.size(); ++i) {
    const Parameter& is = graph.parameters[node.parameters[i]];
    std::string text;
    const auto truth = [](bool value) { return value ? "true" : "false"; };
    if (is.trained != usual[i].trained) text += property("trained", truth(is.trained), text);
    if (is.decays != usual[i].decays) text += property("decays", truth(is.decays), text);
    if (is.rate_factor != usual[i].rate_factor) {
      text += property("rate_factor", to_string(AttributeValue(is.rate_factor)), text);
    }
    if (!text.empty()) all += property(usual[i].name.c_str(), "{" + text + "}", all);
  }
  return all;
}

std::string input_text(const Value& value) {
  const bool is_number = value.element == Element::kNumber;
  const char* type = is_number                          ? kNumberType
                     : value.element == Element::kIndex ? kIndexType
                                                        : kPixelType;
  return "{\"name\": " + json_quoted(value.name) + ", \"op\": \"input\", \"type\": \"" + type +
         "\"" + (is_number ? ", \"exponent\": " + std::to_string(value.exponent) : "") +
         ", \"shape\": " + to_string(value.shape) + "}";
}

std::string node_text(const Graph& graph, int n) {
  const Node& node = graph.nodes[n];
  std::vector<std::string> inputs;
  for (const int input : node.inputs) inputs.push_back(graph.values[input].name);
  std::string text = "{\"name\": " + json_quoted(node.name) +
                     ", \"op\": " + json_quoted(node.op->name) + ", \"inputs\": " + list_of(inputs);
  const auto add = [&](const char* key, const std::string& entries) {
    if (!entries.empty()) text += ", \"" + std::string(key) + "\": {" + entries + "}";
  };
  add("attributes", attributes_text(node));
  const int owner = parameter_owner(graph, n);
  if (owner >= 0) {
    text += ", \"shares\": " + json_quoted(graph.nodes[owner].name);
  } else {
    add("parameters", parameters_text(graph, node));
  }
  std::string shapes;
  for (const int output : node.outputs) {
    shapes += (shapes.empty() ? "" : ", ") + to_string(graph.values[output].shape);
  }
  const bool one = node.outputs.size() == 1;
  return text + (one ? ", \"shape\": " + shapes : ", \"shapes\": [" + shapes + "]") + "}";
}

// Inputs and nodes in the order of their values.
std::string entries_text(const Graph& graph) {
  std::string text;
  const auto add = [&](const std::string& entry) {
    text += (text.empty() ? "\n    " : ",\n    ") + entry;
  };
  for (const Value& value : graph.values) {
    if (value.producer < 0) add(input_text(value));
    if (value.producer >= 0 && value.port == 0) add(node_text(graph, value.producer));
  }
  return text;
}

}  // namespace

std::string to_json(const Graph& graph) {
  std::vector<std::string> outputs, losses;
  for (const int output : graph.outputs) outputs.push_back(graph.values[output].name);
  for (const int loss : graph.losses) losses.push_back(graph.nodes[loss].name);
  std::string text = "{\n  \"format\": " + json_quoted(kNetworkFormat) +
                     ",\n  \"name\": " + json_quoted(graph.name) + ",\n  \"nodes\": [" +
                     entries_text(graph) + "\n  ],\n  \"outputs\": " + list_of(outputs);
  if (!losses.empty()) text += ",\n  \"losses\": " + list_of(losses);
  return text + "\n}\n";
}

Result<NetworkText> read_network_text(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const auto bytes, read_file(path, kMostNetworkBytes));
  auto network = parse_network_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!network.ok()) network.error().message = path.string() + ", " + network.error().message;
  return network;
}

Result<Graph> read_network(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(NetworkText network, read_network_text(path));
  return std::move(network.graph);
}

std::string network_sha256(const Graph& graph) { return sha256_hex(to_json(graph)); }

}  // namespace mantissa
