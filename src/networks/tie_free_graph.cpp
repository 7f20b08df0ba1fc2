#include "networks/tie_free_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "networks/frozen_graph.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/pooling/pool_axes.h"
#include "ops/quantise_steps.h"

namespace mantissa {
namespace {

constexpr int kMostFractionBits =
    5;  // of the input's means: its pixels are multiplied by 2^(1 + f)

bool passes_on(const Op* op) {
  return op == &ops::kMaxPool || op == &ops::kOverlappingMaxPool || op == &ops::kRelu ||
         op == &ops::kConcat || op == &ops::kFlatten || op == &ops::kReshape || op == &ops::kPad ||
         op == &ops::kDepthTaps || op == &ops::kSlice || op == &ops::kIdentity;
}

const Op* rescaled_layer(const Op* op) {
  if (op == &ops::kConvolution || op == &ops::kRescaledConvolution) {
    return &ops::kRescaledConvolution;
  }
  return op == &ops::kLinear || op == &ops::kRescaledLinear ? &ops::kRescaledLinear : nullptr;
}

class TieFree {
 public:
  explicit TieFree(const Graph& from)
      : from_(from), readers_(readers_of(from)), builder_(inputs_alone(from)) {
    result_.value_of.assign(from.values.size(), -1);
    read_as_.assign(from.values.size(), -1);
    for (size_t i = 0; i < from.inputs.size(); ++i) read_as_[from.inputs[i]] = static_cast<int>(i);
  }

  Result<TieFreeGraph> run() {
    if (from_.outputs.size() != 1) return invalid_input("it has several results; leave ties=up out");
    for (int n = 0; n < std::ssize(from_.nodes); ++n) {
      const Status added = add(n);
      if (added.ok()) continue;
      const Node& node = from_.nodes[n];
      return invalid_input("node '" + node.name + "' (" + node.op->name + ") " +
                           added.error().message);
    }
    MANTISSA_ASSIGN(result_.graph, builder_.finish(read_as_[from_.outputs[0]]));
    return std::move(result_);
  }

 private:
  static Graph inputs_alone(const Graph& from) {
    Graph graph;
    graph.name = from.name;
    for (const int input : from.inputs) {
      graph.inputs.push_back(static_cast<int>(graph.values.size()));
      graph.values.push_back(from.values[input]);
    }
    return graph;
  }

  std::vector<int> inputs_of(const Node& node) const {
    std::vector<int> inputs;
    for (const int input : node.inputs) inputs.push_back(read_as_[input]);
    return inputs;
  }

  // Adds a node that stands for node n; returns its output.
  int put(int n, const Op& op, const std::string& name, std::vector<int> inputs,
          const Attributes& attributes) {
    const int value = builder_.add(op, name, std::move(inputs), attributes);
    result_.origin.push_back(n);
    return value;
  }
  Status define(const Node& node, int bytes, int read_as) {
    result_.value_of[node.outputs[0]] = bytes;
    read_as_[node.outputs[0]] = read_as;
    return builder_.status();
  }
  Status define(const Node& node, int value) { return define(node, value, value); }

  bool is_result(int value) const {
    const std::vector<int>& readers = readers_[value];
    return (from_.is_output(value) || !readers.empty()) &&
           std::all_of(readers.begin(), readers.end(), [&](int n) { return from_.is_loss(n); });
  }
  int only_reader(int value, const Op& op) const {
    const bool is_one = readers_[value].size() == 1 && !from_.is_output(value);
    return is_one && from_.nodes[readers_[value][0]].op == &op ? readers_[value][0] : -1;
  }
  bool shares_parameters(const Node& node) const {
    return std::count_if(from_.nodes.begin(), from_.nodes.end(), [&](const Node& other) {
             return !other.parameters.empty() && other.parameters[0] == node.parameters[0];
           }) > 1;
  }

  Status add(int n) {
    const Node& node = from_.nodes[n];
    if (result_.value_of[node.outputs[0]] >= 0) return {};  // a ReLU6 that its layer applies
    if (from_.is_loss(n)) {
      builder_.add_loss(*node.op, node.name, inputs_of(node), node.attributes);
      result_.origin.push_back(n);
      return builder_.status();
    }
    if (node.op == &ops::kNormaliseInput) return add_input(n);
    if (rescaled_layer(node.op) != nullptr) return add_layer(n);
    if (node.op == &ops::kAdd) {
      return define(node, put(n, ops::kAddHalfUp, node.name, inputs_of(node), {}));
    }
    if (node.op == &ops::kRescaledGlobalAverage) return add_global_mean(n);
    if (node.op == &ops::kExactAveragePool) return add_means(n);
    if (node.op == &ops::kQuantise) return add_grid(n);
    if (passes_on(node.op)) {
      return define(node, put(n, *node.op, node.name, inputs_of(node), node.attributes));
    }
    return invalid_input("has no form without ties");
  }

  Status add_input(int n) {
    const Node& node = from_.nodes[n];
    if (node.attributes.as<ops::InputAttributes>().fraction_bits > kMostFractionBits) {
      return invalid_input("has means with more than " + std::to_string(kMostFractionBits) +
                           " bits behind the point");
    }
    return define(node, put(n, ops::kNormaliseInput, node.name, inputs_of(node), node.attributes));
  }

  Status add_layer(int n) {
    const Node& node = from_.nodes[n];
    const Op& op = *rescaled_layer(node.op);
    if (shares_parameters(node)) return invalid_input("shares its weights with another node");
    if (&op == &ops::kRescaledLinear && from_.values[node.inputs[0]].shape.rank != 1) {
      return invalid_input("reads more than one vector");
    }
    const int relu6 = only_reader(node.outputs[0], ops::kRelu6);
    std::vector<Attributes::Item> attributes = attributes_of(op, node.attributes).items();
    std::erase_if(attributes, [relu6](const Attributes::Item& item) {
      return item.first == "full_range" || (item.first == "relu6" && relu6 >= 0);
    });
    attributes.emplace_back("full_range", int64_t{1});
    if (relu6 >= 0) attributes.emplace_back("relu6", int64_t{1});
    const int bytes = put(n, op, node.name, inputs_of(node), Attributes(std::move(attributes)));
    if (relu6 >= 0) return define(from_.nodes[relu6], bytes);
    if (!is_result(node.outputs[0])) return define(node, bytes);
    return define(node, bytes, put(n, ops::kWiden, node.name + "/wide", {bytes}, {}));
  }

  Status add_global_mean(int n) {
    const Node& node = from_.nodes[n];
    const Shape& shape = from_.values[node.inputs[0]].shape;
    const int64_t channels = shape.last();
    const int means = put(n, ops::kRescaledConvolution, node.name, inputs_of(node),
                          {{"channels", channels},
                           {"groups", channels},
                           {"kernel", shape[0]},
                           {"kernel_width", ops::is_sequence(shape) ? 0 : shape[1]},
                           {"full_range", int64_t{1}}});
    return define(node, put(n, ops::kFlatten, node.name + "/vector", {means}, {}));
  }

  Status add_means(int n) {
    const Node& node = from_.nodes[n];
    const auto& pool = node.attributes.as<ops::PoolAttributes>();
    const Shape& shape = from_.values[node.inputs[0]].shape;
    const bool of_sequence = ops::is_sequence(shape);
    const auto [vertical, horizontal] = ops::pool_axes(pool, of_sequence);
    const bool pads = vertical.padding > 0 || horizontal.padding > 0;
    if (pads && !pool.count_padding) {
      return invalid_input("leaves padded cells out of its means");
    }
    const int64_t channels = shape.last();
    std::vector<Attributes::Item> attributes = {
        {"channels", channels}, {"groups", channels}, {"full_range", int64_t{1}}};
    const auto add = [&](const char* name, const char* width_name, int64_t of_height,
                         int64_t of_width) {
      attributes.emplace_back(name, of_sequence ? of_width : of_height);
      if (!of_sequence) attributes.emplace_back(width_name, of_width);
    };
    add("kernel", "kernel_width", vertical.window, horizontal.window);
    add("stride", "stride_width", vertical.stride, horizontal.stride);
    add("padding", "padding_width", vertical.padding, horizontal.padding);
    const int means = put(n, ops::kRescaledConvolution, node.name, inputs_of(node),
                          Attributes(std::move(attributes)));
    MANTISSA_RETURN_IF_ERROR(builder_.status());
    if (builder_.shape(means) != from_.values[node.outputs[0]].shape) {
      return invalid_input("has windows that reach beyond the image");
    }
    return define(node, means);
  }

  // A grid of few bits: a depthwise layer of one tap, whose scale is that of the grid.
  Status add_grid(int n) {
    const Node& node = from_.nodes[n];
    const auto& grid = node.attributes.as<ops::QuantiseAttributes>();
    if (grid.is_signed) return invalid_input("has a grid with a sign");
    if (grid.offset) return invalid_input("has a grid with an offset");
    const Shape& shape = from_.values[node.inputs[0]].shape;
    const int64_t channels = shape.last();
    std::vector<int> inputs = inputs_of(node);
    if (shape.rank == 1) {
      inputs = {put(n, ops::kReshape, node.name + "/map", std::move(inputs),
                    {{"height", 1}, {"width", 1}, {"channels", channels}})};
    }
    const int steps = put(n, ops::kRescaledConvolution, node.name, std::move(inputs),
                          {{"channels", channels},
                           {"groups", channels},
                           {"kernel", 1},
                           {"most", ops::quantise_levels(grid)}});
    if (shape.rank > 1) return define(node, steps);
    return define(node, put(n, ops::kFlatten, node.name + "/vector", {steps}, {}));
  }

  const Graph& from_;
  std::vector<std::vector<int>> readers_;
  GraphBuilder builder_;
  TieFreeGraph result_;
  std::vector<int> read_as_;  // by value: what its readers read
};

}  // namespace

Result<TieFreeGraph> tie_free_graph(const Graph& rescaled) { return TieFree(rescaled).run(); }

}  // namespace mantissa
