#include "onnx/import/rewrite/one_axis.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/files/node_values.h"

namespace mantissa::onnx {
namespace {

using Wholes = std::vector<int64_t>;

constexpr std::string_view kOverAxis[] = {"Conv", "ConvTranspose", "BatchNormalization", "MaxPool",
                                          "AveragePool", "GlobalAveragePool", "GlobalMaxPool"};
// Of each number at its place: they move with the values that they read.
constexpr std::string_view kElementwise[] = {
    "Add",  "Cast", "Celu",     "Clip", "Div",  "Dropout", "Elu",  "Gelu",     "HardSigmoid",
    "HardSwish", "Identity", "LeakyRelu", "Mish", "Mul",     "PRelu", "Pow", "Relu",
    "Selu", "Sigmoid", "Softplus", "Sub",  "Tanh", "QuantizeLinear", "DequantizeLinear"};
constexpr std::string_view kMoves[] = {"Identity", "Cast", "Pad", "Transpose", "Dropout"};
// With the channels as an axis, if they read values that are known to be [N, C, T].
constexpr std::string_view kOfChannels[] = {"GroupNormalization", "InstanceNormalization",
                                            "LayerNormalization", "Slice", "Split"};
// What a model of whole numbers has instead of a node of kOverAxis and what stands before it.
constexpr std::string_view kWholeOverAxis[] = {"ConvInteger", "QLinearConv"};
constexpr std::string_view kWholeMoves[] = {"DynamicQuantizeLinear"};

template <size_t n>
bool is_one_of(const std::string_view (&names)[n], const std::string& op) {
  return std::find(std::begin(names), std::end(names), op) != std::end(names);
}

class OneAxis {
 public:
  explicit OneAxis(GraphData& graph) : graph_(graph) {
    for (const ValueData& value : graph.inputs) note(value);
    for (const ValueData& value : graph.values) note(value);
    for (const ValueData& value : graph.outputs) note(value);
    for (const NodeData& node : graph.nodes) {
      for (const std::string& input : node.inputs) readers_[input].push_back(&node);
    }
    for (const ValueData& output : graph.outputs) readers_[output.name].push_back(nullptr);
    for (const ValueData& input : graph.inputs) {
      if (constant(input.name) == nullptr) before_layers_.insert(input.name);
    }
  }

  void run() {
    for (NodeData& node : graph_.nodes) {
      if (dropped_.contains(&node)) continue;
      cut_end(node);
      follow(node);
      if (!is_of_signal(node) || !widen(node)) {
        nodes_.push_back(std::move(node));
        continue;
      }
      read_rows(node);
      write_rows(std::move(node));
    }
    graph_.nodes = std::move(nodes_);
  }

 private:
  void note(const ValueData& value) {
    Wholes& dims = dims_[value.name];
    dims.clear();
    for (const Dimension& dimension : value.dims) dims.push_back(dimension.size);
  }
  const TensorData* constant(const std::string& name) const {
    for (const TensorData& tensor : graph_.initialisers) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  TensorData* constant(const std::string& name) {
    return const_cast<TensorData*>(std::as_const(*this).constant(name));
  }
  bool has_one_axis(const std::string& value) const {
    const auto found = dims_.find(value);
    return found != dims_.end() && found->second.size() == 3 && constant(value) == nullptr;
  }

  bool is_of_signal(const NodeData& node) const {
    if (node.inputs.empty() || node.outputs.empty() || !node.domain.empty()) return false;
    const auto is_wide = [&](const std::string& input) { return rows_.contains(input); };
    if (is_one_of(kElementwise, node.op_type)) {
      return !normed_.contains(node.outputs[0]) &&
             std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& input) {
               return is_wide(input) || normed_.contains(input) || before_layers_.contains(input);
             });
    }
    if (is_one_of(kOfChannels, node.op_type)) {
      return is_wide(node.inputs[0]) || normed_.contains(node.inputs[0]);
    }
    const bool takes = is_one_of(kOverAxis, node.op_type) || node.op_type == "Pad" ||
                       node.op_type == "Concat" || node.op_type == "ReduceMean" ||
                       node.op_type == "Resize" || node.op_type == "Upsample";
    return takes && has_one_axis(node.inputs[0]);
  }

  // Notes what lies before the first layer, and results of a group norm as PyTorch exports it: an
  // InstanceNormalization of groups, a Reshape back, a factor and a summand for each channel. The
  // import puts these nodes together, so they stay as they are.
  void follow(const NodeData& node) {
    if (node.inputs.empty() || node.outputs.empty()) return;
    const std::string &input = node.inputs[0], &output = node.outputs[0];
    if (is_one_of(kMoves, node.op_type) && before_layers_.contains(input)) {
      before_layers_.insert(output);
    }
    if (node.op_type == "InstanceNormalization" && !rows_.contains(input) &&
        !normed_.contains(input)) {
      groups_.insert(output);
    }
    const bool is_affine = node.op_type == "Mul" || node.op_type == "Add";
    const bool reads_norm = std::any_of(
        node.inputs.begin(), node.inputs.end(),
        [&](const std::string& each) { return factored_.contains(each); });
    const bool has_constant = std::any_of(
        node.inputs.begin(), node.inputs.end(),
        [&](const std::string& each) { return std::as_const(*this).constant(each) != nullptr; });
    if ((node.op_type == "Reshape" && groups_.contains(input) && has_one_axis(output)) ||
        (is_affine && reads_norm && has_constant)) {
      normed_.insert(output);
      if (node.op_type != "Add") factored_.insert(output);
    }
  }

  // The node over two axes; false: it stays as it is.
  bool widen(NodeData& node) {
    const std::string& op = node.op_type;
    if (op == "Concat") return widen_concat(node);
    if (op == "ReduceMean") return widen_mean(node);
    if (op == "Resize" || op == "Upsample") return widen_sizes(node);
    if (op == "Slice") return widen_list(node, "axes", 3, 1, channel_axis);
    if (op == "Split") return widen_axis(node, 0);
    if (op == "LayerNormalization") return widen_axis(node, -1) && widen_constants(node);
    if (op == "GroupNormalization" || op == "InstanceNormalization") return true;
    if (op == "Pad") return widen_list(node, "pads", 1, 6, [](const Wholes& p) {
        return Wholes{p[0], p[1], 0, p[2], p[3], p[4], 0, p[5]};
      });
    if (op == "Conv" || op == "ConvTranspose") {
      TensorData* weights = node.inputs.size() > 1 ? constant(node.inputs[1]) : nullptr;
      if (weights == nullptr || (weights->dims.size() != 3 && weights->dims.size() != 4)) {
        return false;
      }
      if (weights->dims.size() == 3) weights->dims.insert(weights->dims.begin() + 2, 1);
    }
    if (op == "PRelu" || op == "Add" || op == "Mul" || op == "Sub" || op == "Div" || op == "Pow") {
      return widen_constants(node);
    }
    // The stride of the one row does not matter, and dense kernels want both alike.
    for (NodeAttribute& attribute : node.attributes) {
      auto* numbers = std::get_if<Wholes>(&attribute.value);
      if (numbers == nullptr) continue;
      const bool is_conv = op == "Conv" || op == "ConvTranspose";
      const std::string& name = attribute.name;
      if (name == "kernel_shape" && numbers->size() == 1) numbers->insert(numbers->begin(), 1);
      if (name == "strides" && numbers->size() == 1) {
        numbers->insert(numbers->begin(), is_conv ? numbers->front() : 1);
      }
      if (name == "dilations" && numbers->size() == 1) {
        numbers->insert(numbers->begin(), is_conv ? numbers->front() : 1);
      }
      if (name == "output_padding" && numbers->size() == 1) numbers->insert(numbers->begin(), 0);
      if (name == "output_shape" && numbers->size() == 1) numbers->insert(numbers->begin(), 1);
      if (name == "pads" && numbers->size() == 2) *numbers = {0, (*numbers)[0], 0, (*numbers)[1]};
    }
    return true;
  }

  // A list of this many whole numbers, as an attribute or a constant input.
  template <typename Widened>
  bool widen_list(NodeData& node, const char* attribute, size_t input, size_t size,
                  const Widened& widened) {
    if (has_attribute(node, attribute)) {
      const Wholes is = wholes_of(node, attribute);
      if (is.size() != size || widened(is).empty()) return false;
      set(node, attribute, widened(is));
      return true;
    }
    const TensorData* tensor = node.inputs.size() > input ? constant(node.inputs[input]) : nullptr;
    if (tensor == nullptr) return false;
    const auto is = wholes_of(*tensor);
    if (!is.ok() || is->size() != size || widened(*is).empty()) return false;
    node.inputs[input] = add_wholes(node.outputs[0] + " " + attribute, widened(*is));
    return true;
  }

  // Scales and sizes of [N, C, T].
  bool widen_sizes(NodeData& node) {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const TensorData* tensor = node.inputs[i].empty() ? nullptr : constant(node.inputs[i]);
      if (tensor == nullptr) continue;
      const auto numbers = numbers_of(*tensor);
      if (!numbers.ok()) return false;
      if (numbers->size() == 6) {
        node.inputs[i].clear();  // a region, which no mode that is possible here reads
        continue;
      }
      if (numbers->size() != 3) continue;
      const std::string name = node.outputs[0] + " size " + std::to_string(i);
      if (tensor->type == ElementType::kInt64) {
        Wholes sizes(numbers->begin(), numbers->end());
        sizes.insert(sizes.begin() + 2, 1);
        node.inputs[i] = add_wholes(name, std::move(sizes));
        continue;
      }
      auto kept = std::make_shared<std::vector<float>>(numbers->begin(), numbers->end());
      kept->insert(kept->begin() + 2, 1.0F);
      graph_.initialisers.push_back(
          {name, ElementType::kFloat, {4}, std::as_bytes(std::span(*kept)), kept});
      node.inputs[i] = name;
    }
    return !has_attribute(node, "axes");
  }

  // The axes of [N, C, 1, T], for channels; nothing for other axes.
  static Wholes channel_axis(const Wholes& axes) {
    return axes == Wholes{1} || axes == Wholes{-2} ? Wholes{1} : Wholes{};
  }
  // The attribute of a node of channels.
  static bool widen_axis(NodeData& node, int64_t usual) {
    if (channel_axis({whole_of(node, "axis", usual)}).empty()) return false;
    for (NodeAttribute& attribute : node.attributes) {
      if (attribute.name == "axis") attribute.value = int64_t{1};
    }
    return true;
  }

  bool widen_concat(NodeData& node) {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](const auto& input) { return has_one_axis(input); }) &&
           widen_axis(node, 0);
  }

  // The mean over all positions.
  bool widen_mean(NodeData& node) {
    const auto both = [](const Wholes& axes) {
      return axes == Wholes{2} || axes == Wholes{-1} ? Wholes{2, 3} : Wholes{};
    };
    return widen_list(node, "axes", 1, 1, both);
  }

  // Constants that are read together with values of [N, C, 1, T].
  bool widen_constants(NodeData& node) {
    for (const std::string& input : node.inputs) {
      TensorData* tensor = constant(input);
      if (tensor == nullptr || tensor->dims.size() < 2 || widened_.contains(input)) continue;
      if (readers_[input].size() != 1) return false;
      tensor->dims.insert(tensor->dims.end() - 1, 1);
      widened_.insert(input);
    }
    return true;
  }

  // A convolution whose results' end is cut off by a Slice needs less padding there.
  void cut_end(NodeData& node) {
    if (node.op_type != "Conv" || node.outputs.empty() || !has_one_axis(node.outputs[0])) return;
    const auto& readers = readers_[node.outputs[0]];
    if (readers.size() != 1 || readers[0] == nullptr || readers[0]->op_type != "Slice") return;
    const NodeData& slice = *readers[0];
    if (wholes_of(node, "strides", {1}) != Wholes{1}) return;
    Wholes pads = wholes_of(node, "pads", {0, 0});
    const int64_t size = dims_[node.outputs[0]][2], left = dims_[slice.outputs[0]].size() == 3
                                                               ? dims_[slice.outputs[0]][2]
                                                               : -1;
    const auto number = [&](size_t input, const char* attribute) -> std::optional<int64_t> {
      if (has_attribute(slice, attribute)) {
        const Wholes is = wholes_of(slice, attribute);
        return is.size() == 1 ? std::optional(is[0]) : std::nullopt;
      }
      const TensorData* tensor =
          slice.inputs.size() > input ? constant(slice.inputs[input]) : nullptr;
      if (tensor == nullptr) return std::nullopt;
      const auto is = wholes_of(*tensor);
      return is.ok() && is->size() == 1 ? std::optional((*is)[0]) : std::nullopt;
    };
    const auto start = number(1, "starts"), axis = number(3, "axes");
    const int64_t cut = size - left;
    if (start != 0 || (axis != 2 && axis != -1) || number(4, "steps").value_or(1) != 1) return;
    if (pads.size() != 2 || left < 1 || cut < 0 || cut > pads[1]) return;
    pads[1] -= cut;
    set(node, "pads", std::move(pads));
    node.outputs[0] = slice.outputs[0];
    dropped_.insert(&slice);
  }

  static void set(NodeData& node, const std::string& name, Wholes numbers) {
    for (NodeAttribute& attribute : node.attributes) {
      if (attribute.name == name) return void(attribute.value = std::move(numbers));
    }
    node.attributes.push_back({name, std::move(numbers)});
  }

  std::string add_wholes(const std::string& name, Wholes numbers) {
    const auto count = std::ssize(numbers);
    auto kept = std::make_shared<const Wholes>(std::move(numbers));
    graph_.initialisers.push_back(
        {name, ElementType::kInt64, {count}, std::as_bytes(std::span(*kept)), kept});
    return name;
  }

  // The inputs of [N, C, T] as [N, C, 1, T].
  void read_rows(NodeData& node) {
    for (std::string& input : node.inputs) {
      if (!has_one_axis(input)) continue;
      const auto known = rows_.find(input);
      if (known != rows_.end()) {
        input = known->second;
        continue;
      }
      const std::string row = input + " as a row";
      nodes_.push_back({row, "Unsqueeze", "", {input}, {row}, {{"axes", Wholes{2}}}});
      note_rows(input, row);
      input = rows_[input] = row;
    }
  }

  void write_rows(NodeData node) {
    const bool gives_signals = std::any_of(
        node.outputs.begin(), node.outputs.end(),
        [&](const auto& each) { return is_signal(each); });
    if (gives_signals && node.name.empty()) node.name = node.op_type;
    std::vector<NodeData> behind;
    for (std::string& value : node.outputs) {
      if (!is_signal(value)) continue;
      const std::string row = value + " in a row";
      note_rows(value, row);
      rows_[value] = row;
      behind.push_back({value + " of a row", "Squeeze", "", {row}, {value}, {{"axes", Wholes{2}}}});
      value = row;
    }
    nodes_.push_back(std::move(node));
    for (NodeData& each : behind) nodes_.push_back(std::move(each));
  }
  bool is_signal(const std::string& output) const {
    const auto dims = dims_.find(output);
    return dims != dims_.end() && dims->second.size() == 3;
  }

  void note_rows(const std::string& value, const std::string& row) {
    const Wholes& dims = dims_[value];
    graph_.values.push_back({row, ElementType::kFloat, true,
                             {{dims[0], ""}, {dims[1], ""}, {1, ""}, {dims[2], ""}}});
  }

  GraphData& graph_;
  std::vector<NodeData> nodes_;
  std::map<std::string, Wholes> dims_;
  std::map<std::string, std::vector<const NodeData*>> readers_;
  std::map<std::string, std::string> rows_;  // the same value as [N, C, 1, T]
  std::set<const NodeData*> dropped_;
  std::set<std::string> widened_;
  std::set<std::string> before_layers_;  // inputs, and what only moves their numbers
  // Results of an InstanceNormalization of groups; of a group norm; those that a factor or summand
  // of it may follow.
  std::set<std::string> groups_, normed_, factored_;
};

}  // namespace

SignalAxes signal_axes(const GraphData& graph) {
  std::set<std::string> constants;
  for (const TensorData& tensor : graph.initialisers) constants.insert(tensor.name);
  std::vector<const ValueData*> inputs;
  for (const ValueData& input : graph.inputs) {
    if (!constants.contains(input.name)) inputs.push_back(&input);
  }
  if (inputs.size() != 1 || inputs[0]->type != ElementType::kFloat || inputs[0]->dims.size() != 3) {
    return SignalAxes::kNone;
  }
  std::string value = inputs[0]->name;
  bool is_turned = false;
  for (const NodeData& node : graph.nodes) {
    const bool reads =
        std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
    if (!reads || node.outputs.empty()) continue;
    const std::string& op = node.op_type;
    if (is_one_of(kOverAxis, op) || is_one_of(kWholeOverAxis, op)) {
      return is_turned ? SignalAxes::kChannelsLast : SignalAxes::kChannelsFirst;
    }
    if (!is_one_of(kMoves, op) && !is_one_of(kElementwise, op) && !is_one_of(kWholeMoves, op)) {
      continue;
    }
    if (op == "Transpose") {
      if (wholes_of(node, "perm") != Wholes{0, 2, 1}) return SignalAxes::kNone;
      is_turned = !is_turned;
    }
    value = node.outputs[0];
  }
  return SignalAxes::kNone;
}

void lay_out_signals(GraphData& graph) { OneAxis(graph).run(); }

}  // namespace mantissa::onnx
