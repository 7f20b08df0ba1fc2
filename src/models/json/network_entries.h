// Entries of the JSON of networks: words that reading and writing share. Functions return the value
// of an entry, or an error with its line. `what` names the entry in errors: "node 'conv1'".
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/json_tree.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace mantissa {

inline constexpr const char* kNetworkFormat = "mantissa network 1";
inline constexpr const char* kInputOp = "input";    // an entry of "nodes" that is an input
inline constexpr const char* kPixelType = "uint8";  // types of inputs
inline constexpr const char* kIndexType = "int32";
inline constexpr const char* kNumberType = "int16";

// An integer attribute that is written as true or false.
inline bool is_flag(const AttributeSpec& spec) {
  return spec.type == AttributeType::kWhole && spec.least == 0 && spec.most == 1;
}

// The parameters that the node's op makes, with names that lack the node's.
inline std::vector<Parameter> usual_parameters(const Graph& graph, const Node& node) {
  if (node.op->parameters == nullptr) return {};
  std::vector<Shape> shapes;
  for (const int input : node.inputs) shapes.push_back(graph.values[input].shape);
  return node.op->parameters(node.attributes, shapes);
}

using Names = std::vector<std::string>;

// "a, b, c".
std::string joined(const Names& names);

// A text of a file in quotes, cut to the length that names may have.
std::string shown(const std::string& text);

// "line 3: ", and the fault there.
Error at(const JsonTree& place, const std::string& what);

// An error unless it is an object with no other keys.
Status check_keys(const JsonTree& object, const std::string& what, const Names& known);

// The entry of that key, which must be there and of that kind: a text, or a list.
Result<const JsonTree*> entry(const JsonTree& object, const std::string& what,
                              const std::string& key, JsonTree::Kind kind);
Result<std::string> text_entry(const JsonTree& object, const std::string& what,
                               const std::string& key);
Result<Names> names_entry(const JsonTree& object, const std::string& what, const std::string& key);

// The entry "name". Its form suits names of tensors, and patterns for them.
Result<std::string> name_entry(const JsonTree& object, const std::string& what);

Result<WholeList> wholes_of(const JsonTree& list, const std::string& what);
Result<Shape> shape_of(const JsonTree& list, const std::string& what, size_t most_dims);

// The entry "attributes" of a node, which may be missing. Whether the op has them is not checked.
Result<Attributes> attributes_of(const JsonTree& entry, const Op& op, const std::string& what);

// A parameter with the properties that its entry of "parameters" of a node says.
Result<Parameter> with_properties(Parameter parameter, const JsonTree& properties,
                                  const std::string& node);

}  // namespace mantissa
