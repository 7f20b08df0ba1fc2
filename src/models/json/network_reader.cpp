// A network from its JSON. Entries are read in their order, so that the inputs of a node are there
// before it.
#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "formats/json_tree.h"
#include "models/json/network_entries.h"
#include "models/json/network_json.h"
#include "models/json/operators.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

using Kind = JsonTree::Kind;

constexpr int64_t kMostValues = 400'000;                 // of the JSON
constexpr size_t kLongestMessage = 600;                  // names and values of a file may be long
constexpr size_t kMostInputDims = Shape::kMostDims - 1;  // a batch has one more

class NetworkReader {
 public:
  explicit NetworkReader(std::string name) : builder_(std::move(name)) {}

  // The first node of each stage; empty if no node says its own.
  Names take_stages() { return says_stages_ ? std::move(stages_) : Names{}; }

  Result<Graph> read(const JsonTree& root) {
    MANTISSA_ASSIGN(const JsonTree* nodes, entry(root, "the network", "nodes", Kind::kList));
    if (std::ssize(nodes->items) > kMostNetworkNodes) {
      return at(*nodes, "the network has " + std::to_string(nodes->items.size()) +
                            " nodes; at most " + std::to_string(kMostNetworkNodes) +
                            " are possible");
    }
    if (root.find("losses") != nullptr) {
      MANTISSA_ASSIGN(const Names losses, names_entry(root, "the network", "losses"));
      losses_.insert(losses.begin(), losses.end());
    }
    for (const JsonTree& item : nodes->items) note_line(item);
    for (const JsonTree& item : nodes->items) MANTISSA_RETURN_IF_ERROR(read_entry(item));
    for (const std::string& loss : losses_) {
      if (!nodes_.contains(loss))
        return at(*root.find("losses"), "there is no node " + shown(loss));
    }
    return finish(root);
  }

 private:
  // The places of names that entries use too early.
  void note_line(const JsonTree& item) {
    const JsonTree* name = item.find("name");
    if (name == nullptr || name->kind != Kind::kText) return;
    lines_.emplace(std::get<std::string>(name->scalar), name->line);
  }

  Status read_entry(const JsonTree& item) {
    if (item.kind != Kind::kObject) return at(item, "a node wants an object, {...}");
    MANTISSA_ASSIGN(const std::string name, name_entry(item, "a node"));
    const std::string what = "node '" + name + "'";
    MANTISSA_ASSIGN(const std::string op_name, text_entry(item, what, "op"));
    if (op_name == kInputOp) return read_input(item, name);
    if (const Op* op = find_operator(op_name)) return read_node(item, name, *op);
    Names known = {kInputOp};
    for (const Op* each : operators()) known.emplace_back(each->name);
    return at(*item.find("op"),
              what + ": there is no operator " + shown(op_name) + "; there are " + joined(known));
  }

  Status read_input(const JsonTree& item, const std::string& name) {
    const std::string what = "input '" + name + "'";
    MANTISSA_RETURN_IF_ERROR(check_keys(item, what, {"name", "op", "type", "exponent", "shape"}));
    MANTISSA_ASSIGN(const std::string type, text_entry(item, what, "type"));
    if (type != kPixelType && type != kIndexType && type != kNumberType) {
      return at(*item.find("type"), what + ": there is no type " + shown(type) + "; there are " +
                                        kPixelType + " (pixels), " + kIndexType +
                                        " (indices) and " + kNumberType + " (numbers)");
    }
    MANTISSA_ASSIGN(const JsonTree* list, entry(item, what, "shape", Kind::kList));
    MANTISSA_ASSIGN(const Shape shape, shape_of(*list, "\"shape\" of " + what, kMostInputDims));
    MANTISSA_ASSIGN(const int exponent, exponent_of(item, what, type == kNumberType));
    if (type == kNumberType) return add_value(item, builder_.add_numbers(name, shape, exponent));
    const Element element = type == kPixelType ? Element::kMantissa : Element::kIndex;
    return add_value(item, builder_.add_input(name, shape, element));
  }

  // Numbers are mantissa * 2^exponent; other inputs have none.
  static Result<int> exponent_of(const JsonTree& item, const std::string& what, bool is_number) {
    const JsonTree* entry = item.find("exponent");
    if (entry == nullptr) return 0;
    const int64_t number =
        is_number && entry->kind == Kind::kWhole ? std::get<int64_t>(entry->scalar) : INT64_MAX;
    if (number >= kExponentMin && number <= kExponentMax) return static_cast<int>(number);
    return at(*entry, what + ": \"exponent\" is for int16, and within -128..127");
  }

  Status read_node(const JsonTree& item, const std::string& name, const Op& op) {
    const std::string what = "node '" + name + "'";
    MANTISSA_RETURN_IF_ERROR(check_keys(item, what,
                                        {"name", "op", "inputs", "attributes", "shares",
                                         "parameters", "shape", "shapes", "stage"}));
    MANTISSA_RETURN_IF_ERROR(read_stage(item, name, what));
    MANTISSA_ASSIGN(const std::vector<int> inputs, inputs_of(item, what));
    MANTISSA_ASSIGN(const Attributes attributes, attributes_of(item, op, what));
    MANTISSA_ASSIGN(const int shares, shares_of(item, what, op));
    if (shares >= 0) {
      builder_.add_sharing(shares, op, name, inputs, attributes);
    } else if (losses_.contains(name)) {
      builder_.add_loss(op, name, inputs, attributes);
    } else {
      builder_.add_all(op, name, inputs, attributes);
    }
    if (!builder_.status().ok()) return at(item, builder_.status().error().message);
    const Node& node = builder_.graph().nodes.back();
    nodes_.emplace(name, node.outputs[0]);
    for (const int output : node.outputs) MANTISSA_RETURN_IF_ERROR(add_value(item, output));
    MANTISSA_RETURN_IF_ERROR(check_shapes(item, node));
    return read_parameters(item, node, shares >= 0);
  }

  // A node without one belongs to the stage of the node before it.
  Status read_stage(const JsonTree& item, const std::string& name, const std::string& what) {
    const JsonTree* entry = item.find("stage");
    const int64_t now = std::ssize(stages_);
    if (entry == nullptr) {
      if (now == 0) stages_.push_back(name);
      return {};
    }
    says_stages_ = true;
    const int64_t stage = entry->kind == Kind::kWhole ? std::get<int64_t>(entry->scalar) : 0;
    if (stage < 1) return at(*entry, what + ": \"stage\" is a whole number from 1");
    if (stage < now) {
      return at(*entry, what + ": is of stage " + std::to_string(stage) +
                            " and stands behind nodes of stage " + std::to_string(now) +
                            ": stages follow the order of the nodes");
    }
    if (stage > now + 1) {
      return at(*entry, what + ": is of stage " + std::to_string(stage) +
                            ", and no node is of stage " + std::to_string(now + 1));
    }
    if (stage > now) stages_.push_back(name);
    return {};
  }

  Result<int> value_of(const JsonTree& place, const std::string& name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    const auto line = lines_.find(name);
    return at(place,
              "reads " + shown(name) +
                  (line == lines_.end() ? ", which no input or node before it makes"
                                        : ", which line " + std::to_string(line->second) +
                                              " makes: a node stands after those that it reads"));
  }

  Result<std::vector<int>> inputs_of(const JsonTree& item, const std::string& what) const {
    MANTISSA_ASSIGN(const Names names, names_entry(item, what, "inputs"));
    std::vector<int> inputs;
    for (const std::string& name : names) {
      Result<int> value = value_of(*item.find("inputs"), name);
      if (!value.ok()) return in_node(what, value.error());
      inputs.push_back(*value);
    }
    return inputs;
  }

  // "line 3: reads ..." as "line 3: node 'a' reads ...".
  static Error in_node(const std::string& what, Error error) {
    error.message.insert(error.message.find(": ") + 2, what + " ");
    return error;
  }

  // A value of the node whose parameters this one uses, or -1.
  Result<int> shares_of(const JsonTree& item, const std::string& what, const Op& op) const {
    if (item.find("shares") == nullptr) return -1;
    MANTISSA_ASSIGN(const std::string owner, text_entry(item, what, "shares"));
    const auto found = nodes_.find(owner);
    if (found == nodes_.end()) {
      return at(*item.find("shares"), what + ": \"shares\" wants a node before it; there is no " +
                                          shown(owner) + " there");
    }
    if (op.parameters != nullptr && !losses_.contains(item_name(item))) return found->second;
    return at(*item.find("shares"), what + ": " + op.name + " has no parameters to share");
  }

  static std::string item_name(const JsonTree& item) {
    return std::get<std::string>(item.find("name")->scalar);
  }

  Status add_value(const JsonTree& item, int value) {
    const std::string& name = builder_.graph().values[value].name;
    if (values_.emplace(name, value).second) return {};
    return at(item, "there is a value '" + name + "' already; names stand for one each");
  }

  // Shapes may be left out. Shapes that stand there must be right.
  Status check_shapes(const JsonTree& item, const Node& node) const {
    const std::string what = "node '" + node.name + "'";
    const JsonTree* one = item.find("shape");
    const JsonTree* several = item.find("shapes");
    std::vector<const JsonTree*> lists;
    if (one != nullptr) lists.push_back(one);
    if (several != nullptr && several->kind != Kind::kList) {
      return at(*several, what + ": \"shapes\" wants a list, [...]");
    }
    if (several != nullptr) {
      for (const JsonTree& list : several->items) lists.push_back(&list);
    }
    if (lists.empty() && several == nullptr) return {};
    if (lists.size() != node.outputs.size()) {
      return at(item, what + ": has " + std::to_string(lists.size()) + " shapes, and makes " +
                          std::to_string(node.outputs.size()) + " values");
    }
    for (size_t i = 0; i < lists.size(); ++i) {
      MANTISSA_ASSIGN(const Shape said,
                      shape_of(*lists[i], "the shape of " + what, size_t{Shape::kMostDims}));
      const Shape& is = builder_.graph().values[node.outputs[i]].shape;
      if (said == is) continue;
      return at(*lists[i], what + " (" + node.op->name + "): makes " + to_string(is) + ", not " +
                               to_string(said) + "; the shape may be left out");
    }
    return {};
  }

  Status read_parameters(const JsonTree& item, const Node& node, bool shares) {
    const JsonTree* object = item.find("parameters");
    if (object == nullptr) return {};
    const std::string what = "node '" + node.name + "'";
    if (shares) return at(*object, what + ": its parameters are those of the node that it shares");
    const std::vector<Parameter> usual = usual_parameters(builder_.graph(), node);
    Names known;
    for (const Parameter& parameter : usual) known.push_back(parameter.name);
    MANTISSA_RETURN_IF_ERROR(check_keys(*object, "\"parameters\" of " + what, known));
    for (size_t i = 0; i < usual.size(); ++i) {
      const JsonTree* properties = object->find(known[i]);
      if (properties == nullptr) continue;
      MANTISSA_ASSIGN(Parameter parameter, with_properties(usual[i], *properties, what));
      changed_.emplace_back(node.parameters[i], std::move(parameter));
    }
    return {};
  }

  Result<Graph> finish(const JsonTree& root) {
    MANTISSA_ASSIGN(const Names names, names_entry(root, "the network", "outputs"));
    const JsonTree& place = *root.find("outputs");
    if (names.empty()) return at(place, "\"outputs\" wants the name of a value");
    std::vector<int> outputs;
    for (const std::string& name : names) {
      const auto found = values_.find(name);
      if (found == values_.end()) return at(place, "there is no value " + shown(name));
      outputs.push_back(found->second);
    }
    Result<Graph> graph = builder_.finish(std::move(outputs));
    if (!graph.ok()) return at(root, graph.error().message);
    for (const auto& [index, properties] : changed_) {
      Parameter& parameter = graph->parameters[index];
      parameter.trained = properties.trained;
      parameter.decays = properties.decays;
      parameter.rate_factor = properties.rate_factor;
    }
    return graph;
  }

  GraphBuilder builder_;
  std::unordered_map<std::string, int> values_;  // by name
  std::unordered_map<std::string, int> nodes_;   // by name: the first value
  std::unordered_map<std::string, int> lines_;   // by name: of the entry
  std::unordered_set<std::string> losses_;
  Names stages_;  // the first node of each
  bool says_stages_ = false;
  std::vector<std::pair<int, Parameter>> changed_;
};

Result<NetworkText> network_of(const JsonTree& root) {
  MANTISSA_RETURN_IF_ERROR(
      check_keys(root, "the network", {"format", "name", "nodes", "outputs", "losses"}));
  MANTISSA_ASSIGN(const std::string format, text_entry(root, "the network", "format"));
  if (format != kNetworkFormat) {
    return at(*root.find("format"),
              "the format is " + shown(format) + "; this program reads \"" + kNetworkFormat + "\"");
  }
  MANTISSA_ASSIGN(std::string name, name_entry(root, "the network"));
  NetworkReader reader(std::move(name));
  MANTISSA_ASSIGN(Graph graph, reader.read(root));
  return NetworkText{std::move(graph), reader.take_stages()};
}

}  // namespace

Result<NetworkText> parse_network_text(std::string_view text) {
  if (std::ssize(text) > kMostNetworkBytes) {
    return invalid_input("line 1: the network has more than " +
                         std::to_string(kMostNetworkBytes >> 20) + " MiB of text");
  }
  MANTISSA_ASSIGN(const JsonTree root, parse_json_tree(text, kMostValues));
  Result<NetworkText> network = network_of(root);
  if (!network.ok() && network.error().message.size() > kLongestMessage) {
    network.error().message.resize(kLongestMessage);
    network.error().message += "...";
  }
  return network;
}

Result<Graph> parse_network(std::string_view text) {
  MANTISSA_ASSIGN(NetworkText network, parse_network_text(text));
  return std::move(network.graph);
}

}  // namespace mantissa
