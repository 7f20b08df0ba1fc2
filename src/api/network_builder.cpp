#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "api/public_values.h"
#include "graph/rebuild.h"
#include "mantissa/network.h"
#include "models/json/network_json.h"
#include "models/json/operators.h"
#include "networks/network.h"
#include "networks/untrained.h"
#include "ops/attributes.h"
#include "ops/loss.h"
#include "ops/losses/loss_weight.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa {

Result<Shape> shape_of(const Dims& dims) {
  constexpr size_t kMost = Shape::kMostDims - 1;  // a batch has one more
  if (dims.size() > kMost) {
    return invalid_input("a shape of " + std::to_string(dims.size()) + " dimensions; at most " +
                         std::to_string(kMost) + " are possible");
  }
  Shape shape;
  for (const int64_t dim : dims) {
    if (dim < 1) return invalid_input("a dimension of " + std::to_string(dim));
    shape.dims[static_cast<size_t>(shape.rank++)] = dim;
  }
  return shape;
}

Outcome<Network> Network::from_json(const std::string& text) {
  MANTISSA_ASSIGN(auto graph, parse_network(text));
  return network_of_graph(std::move(graph));
}

Outcome<Network> Network::read(const std::string& path) {
  MANTISSA_ASSIGN(auto graph, read_network(path));
  return network_of_graph(std::move(graph));
}

std::string Network::to_json() const { return mantissa::to_json(data_->graph); }

const std::string& Network::name() const { return data_->graph.name; }

std::vector<InputInfo> Network::inputs() const {
  std::vector<InputInfo> infos;
  for (const int input : data_->graph.inputs) {
    const Value& value = data_->graph.values[input];
    const Elements elements = value.type == DataType::kUint8   ? Elements::kUint8
                              : value.type == DataType::kInt16 ? Elements::kMantissa
                                                               : Elements::kInt32;
    infos.push_back({value.name, elements, dims_of(value.shape), value.exponent});
  }
  return infos;
}

std::vector<ParameterInfo> Network::parameters() const {
  std::vector<ParameterInfo> infos;
  for (const Parameter& parameter : data_->graph.parameters) {
    infos.push_back({parameter.name, dims_of(parameter.shape), parameter.trained});
  }
  return infos;
}

std::string Network::summary() const { return to_string(data_->graph); }

Outcome<Network> Network::with_frozen(const std::string& patterns) const {
  Graph graph = data_->graph;
  if (const Status status = leave_untrained(patterns, graph); !status.ok()) {
    return failure_of(status.error());
  }
  return network_of_graph(std::move(graph));
}

Outcome<Network> Network::with_pixel_means(const std::vector<int64_t>& means) const {
  Graph graph = data_->graph;
  for (const Node& node : graph.nodes) {
    if (node.op != &ops::kNormaliseInput ||
        !node.attributes.as<ops::InputAttributes>().means.empty())
      continue;
    const int64_t channels = graph.values[node.inputs[0]].shape.last();
    if (std::ssize(means) != channels) {
      return invalid_input(std::to_string(means.size()) + " means for pixels of " +
                           std::to_string(channels) + " channels");
    }
  }
  for (const int64_t mean : means) {
    if (mean < 0 || mean > 255) {
      return invalid_input("a mean of pixels must be from 0 to 255");
    }
  }
  fill_means(std::vector<int>(means.begin(), means.end()), graph);
  return network_of_graph(std::move(graph));
}

struct NetworkBuilder::Data {
  GraphBuilder graph;
  Status status;                       // the first error that GraphBuilder does not know of
  int last = -1;                       // value
  std::map<std::string, int> numbers;  // of layers that were named for their operator

  std::vector<Var> outputs;
  std::vector<std::pair<std::string, double>> loss_weights;  // by the input that is compared

  explicit Data(std::string name) : graph(std::move(name)) {}

  void refuse(const std::string& why) {
    if (status.ok()) status = invalid_input("network '" + graph.graph().name + "': " + why);
  }
  bool failed() const { return !status.ok() || !graph.status().ok(); }

  // The value's index, or -1 with an error.
  int index(Var var) {
    const int value = var.index < 0 ? last : var.index;
    if (value >= 0 && value < static_cast<int>(graph.graph().values.size())) return value;
    refuse(value < 0 ? "a layer has nothing to read: add an input before it"
                     : "a value of another network");
    return -1;
  }

  std::string name_for(const std::string& op, const std::string& name) {
    return name.empty() ? op + std::to_string(++numbers[op]) : name;
  }
  // An input that a loss compares with: labels, or targets with an exponent.
  struct Compared {
    std::string labels = {};
    bool by_output = false;
    std::string targets = {};
    int exponent = 0;
  };
  void add_loss(const Op& op, Var result, const std::vector<Compared>& compared,
                const std::string& weights, Attributes attributes) {
    const int value = index(result);
    if (failed()) return;
    const Shape shape = graph.shape(value);
    std::vector<int> inputs = {value};
    for (const Compared& each : compared) {
      inputs.push_back(each.targets.empty()
                           ? graph.add_input(each.labels, ops::labels_shape(shape, each.by_output),
                                             Element::kIndex)
                           : graph.add_numbers(each.targets, shape, each.exponent));
    }
    if (!weights.empty()) {
      inputs.push_back(graph.add_numbers(weights, ops::rows_shape(shape), kWeightExponent));
    }
    graph.add_loss(op, name_for("loss", ""), std::move(inputs), std::move(attributes));
  }

  Var last_is(int value) {
    last = value;
    return {value};
  }
};

NetworkBuilder::NetworkBuilder(std::string name) : data_(new Data(std::move(name))) {}
NetworkBuilder::NetworkBuilder(const Network& network) : data_(new Data(network.name())) {
  Result<Graph> layers = rebuilt(network.data().graph, {.drops_losses = true});
  if (!layers.ok()) {
    data_->status = layers.error();
    return;
  }
  for (const int output : layers->outputs) data_->outputs.push_back({output});
  data_->last = layers->outputs[0];
  data_->graph = GraphBuilder(std::move(*layers));
}
NetworkBuilder::~NetworkBuilder() = default;
NetworkBuilder::NetworkBuilder(NetworkBuilder&&) noexcept = default;
NetworkBuilder& NetworkBuilder::operator=(NetworkBuilder&&) noexcept = default;

Var NetworkBuilder::pixels(const std::string& name, const Dims& dims,
                           const std::vector<int64_t>& means) {
  const auto shape = shape_of(dims);
  if (!shape.ok()) data_->refuse("input '" + name + "': " + shape.error().message);
  if (data_->failed()) return {};
  const int value = data_->graph.add_input(name, *shape, Element::kMantissa);
  std::vector<int64_t> all = means;
  if (all.empty()) all.assign(static_cast<size_t>(std::clamp<int64_t>(shape->last(), 0, 4)), 128);
  return add("normalise_input", {{value}}, {{"means", all}});
}

Var NetworkBuilder::numbers(const std::string& name, const Dims& dims, int exponent) {
  const auto shape = shape_of(dims);
  if (!shape.ok()) data_->refuse("input '" + name + "': " + shape.error().message);
  if (data_->failed()) return {};
  return add("quantise_input", {{data_->graph.add_numbers(name, *shape, exponent)}});
}

Var NetworkBuilder::indices(const std::string& name, const Dims& dims) {
  const auto shape = shape_of(dims);
  if (!shape.ok()) data_->refuse("input '" + name + "': " + shape.error().message);
  if (data_->failed()) return {};
  return data_->last_is(data_->graph.add_input(name, *shape, Element::kIndex));
}

namespace {

Attributes attributes_of(const OperatorSettings& settings) {
  std::vector<Attributes::Item> items;
  for (const auto& [name, setting] : settings) items.emplace_back(name, AttributeValue(setting));
  return Attributes(std::move(items));
}

}  // namespace

std::vector<Var> NetworkBuilder::add_all(const std::string& op, const std::vector<Var>& inputs,
                                         const OperatorSettings& settings,
                                         const std::string& name) {
  const Op* const found = find_operator(op);
  if (found == nullptr) {
    std::string names;
    for (const Op* each : operators())
      names += (names.empty() ? "" : ", ") + std::string(each->name);
    data_->refuse("there is no operator '" + op + "'; there are " + names);
  }
  std::vector<int> values;
  for (const Var& input : inputs) values.push_back(data_->index(input));
  if (data_->failed()) return {Var{}};
  std::vector<Var> results;
  for (const int value :
       data_->graph.add_all(*found, data_->name_for(op, name), values, attributes_of(settings))) {
    results.push_back(data_->last_is(value));
  }
  data_->last = results[0].index;
  return results;
}

Var NetworkBuilder::add(const std::string& op, const std::vector<Var>& inputs,
                        const OperatorSettings& settings, const std::string& name) {
  return add_all(op, inputs, settings, name)[0];
}

Var NetworkBuilder::add_sharing(Var with, const std::string& op, const std::vector<Var>& inputs,
                                const OperatorSettings& settings, const std::string& name) {
  const Op* const found = find_operator(op);
  if (found == nullptr) data_->refuse("there is no operator '" + op + "'");
  std::vector<int> values;
  for (const Var& input : inputs) values.push_back(data_->index(input));
  const int owner = data_->index(with);
  if (data_->failed()) return {};
  return data_->last_is(data_->graph.add_sharing(owner, *found, data_->name_for(op, name), values,
                                                 attributes_of(settings)));
}

Var NetworkBuilder::convolution(const ConvolutionOptions& o, Var input, const std::string& name) {
  const int64_t half = o.causal ? 0 : o.dilation * (o.kernel / 2);
  return add("convolution", {input},
             {{"channels", o.channels},
              {"kernel", o.kernel},
              {"stride", o.stride},
              {"padding", o.padding < 0 ? half : o.padding},
              {"groups", o.groups},
              {"dilation", o.dilation},
              {"bias", int64_t{o.bias}},
              {"causal", int64_t{o.causal}}},
             name);
}

Var NetworkBuilder::volume_convolution(const VolumeConvolutionOptions& o, Var input,
                                       const std::string& name) {
  const auto padding = [&](size_t axis, int64_t dilation) {
    return o.padding[axis] < 0 ? dilation * (o.kernel[axis] / 2) : o.padding[axis];
  };
  const int64_t depth_padding = padding(0, o.depth_dilation);
  if (o.kernel[0] != 1 || o.stride[0] != 1 || depth_padding != 0) {
    input = add("depth_taps", {input},
                {{"kernel", o.kernel[0]},
                 {"stride", o.stride[0]},
                 {"padding", depth_padding},
                 {"dilation", o.depth_dilation}},
                name.empty() ? name : name + ".taps");
  }
  return add("convolution", {input},
             {{"channels", o.channels},
              {"kernel", o.kernel[1]},
              {"kernel_width", o.kernel[2]},
              {"stride", o.stride[1]},
              {"stride_width", o.stride[2]},
              {"padding", padding(1, o.dilation)},
              {"padding_width", padding(2, o.dilation)},
              {"groups", o.groups},
              {"dilation", o.dilation},
              {"bias", int64_t{o.bias}}},
             name);
}

Var NetworkBuilder::linear(int64_t channels, Var input, const std::string& name) {
  return add("linear", {input}, {{"channels", channels}}, name);
}

Var NetworkBuilder::batch_norm(Var input, const std::string& name) {
  return add("batch_norm", {input}, {}, name);
}

Var NetworkBuilder::relu(Var input, const std::string& name) {
  return add("relu", {input}, {}, name);
}

Var NetworkBuilder::max_pool(int64_t window, Var input, const std::string& name) {
  return add("max_pool", {input}, {{"window", window}}, name);
}

Var NetworkBuilder::global_average_pool(Var input, const std::string& name) {
  return add("global_average_pool", {input}, {}, name);
}

Var NetworkBuilder::flatten(Var input, const std::string& name) {
  return add("flatten", {input}, {}, name);
}

Var NetworkBuilder::sum(Var a, Var b, const std::string& name) {
  return add("add", {a, b}, {}, name);
}

Var NetworkBuilder::dropout(double probability, Var input, const std::string& name) {
  return add("dropout", {input}, {{"probability", probability}}, name);
}

void NetworkBuilder::cross_entropy(Var logits, const std::string& labels, double label_smoothing,
                                   const std::string& weights) {
  data_->add_loss(ops::kSoftmaxCrossEntropy, logits, {{.labels = labels}}, weights,
                  {{"smoothing", label_smoothing}});
}

void NetworkBuilder::sigmoid_cross_entropy(Var logits, const std::string& labels, bool by_output,
                                           const std::string& weights) {
  sigmoid_cross_entropy(logits, labels, {.by_output = by_output, .weights = weights});
}

void NetworkBuilder::sigmoid_cross_entropy(Var logits, const std::string& labels,
                                           const SigmoidLoss& form) {
  const Result<WholeList> positive = positive_weights_of(form.positive_weights);
  if (!positive.ok()) {
    data_->refuse(positive.error().message);
    return;
  }
  data_->add_loss(ops::kSigmoidCrossEntropy, logits,
                  {{.labels = labels, .by_output = form.by_output}}, form.weights,
                  {{"smoothing", form.label_smoothing},
                   {"focal", form.focal},
                   {"positive_weights", *positive},
                   {"ordinal", int64_t{form.ordinal}}});
}

void NetworkBuilder::squared_error(Var results, const std::string& targets, int exponent,
                                   const std::string& weights) {
  number_error(results, targets, exponent, {.weights = weights});
}

void NetworkBuilder::number_error(Var results, const std::string& targets, int exponent,
                                  const NumberLoss& form) {
  data_->add_loss(ops::kRegressionError, results, {{.targets = targets, .exponent = exponent}},
                  form.weights, {{"penalty", form.penalty}, {"delta", form.delta}});
}

void NetworkBuilder::soft_cross_entropy(Var logits, const std::string& targets,
                                        const std::string& weights) {
  data_->add_loss(ops::kSoftCrossEntropy, logits,
                  {{.targets = targets, .exponent = kShareExponent}}, weights, {});
}

void NetworkBuilder::distilled_cross_entropy(Var logits, const std::string& labels,
                                             const std::string& targets, double temperature,
                                             double teacher_weight, const std::string& weights) {
  data_->add_loss(ops::kDistilledCrossEntropy, logits,
                  {{.labels = labels}, {.targets = targets, .exponent = kShareExponent}}, weights,
                  {{"temperature", temperature}, {"teacher_weight", teacher_weight}});
}

void NetworkBuilder::dice(Var logits, const std::string& labels, const DiceLoss& form) {
  data_->add_loss(ops::kDiceLoss, logits, {{.labels = labels}}, form.weights,
                  {{"smooth", form.smooth}, {"cross_entropy", form.cross_entropy}});
}

void NetworkBuilder::contrastive(Var vectors, const std::string& labels, double temperature) {
  data_->add_loss(ops::kContrastiveLoss, vectors, {{.labels = labels}}, "",
                  {{"temperature", temperature}});
}

void NetworkBuilder::triplet(Var vectors, const std::string& labels, const TripletLoss& form) {
  data_->add_loss(ops::kTripletLoss, vectors, {{.labels = labels}}, "",
                  {{"margin", form.margin}, {"mining", form.mining}});
}

void NetworkBuilder::ctc(Var logits, const std::string& labels, int64_t most_labels,
                         const CtcLoss& form) {
  const int value = data_->index(logits);
  if (most_labels < 1) data_->refuse("loss of '" + labels + "': most_labels must be at least 1");
  if (data_->failed()) return;
  std::vector<int> inputs = {
      value, data_->graph.add_input(labels, Shape{most_labels}, Element::kIndex)};
  if (!form.lengths.empty()) {
    const Value* const found = input_named(data_->graph.graph(), form.lengths);
    inputs.push_back(found == nullptr
                         ? data_->graph.add_input(form.lengths, Shape{}, Element::kIndex)
                         : static_cast<int>(found - data_->graph.graph().values.data()));
  }
  data_->graph.add_loss(ops::kCtcLoss, data_->name_for("loss", ""), std::move(inputs),
                        {{"blank", form.blank}});
}

void NetworkBuilder::loss_weight(const std::string& compared, double weight) {
  data_->loss_weights.emplace_back(compared, weight);
}

std::vector<Var> NetworkBuilder::outputs() const { return data_->outputs; }

Dims NetworkBuilder::dims(Var value) const {
  const int index = value.index < 0 ? data_->last : value.index;
  if (index < 0 || index >= static_cast<int>(data_->graph.graph().values.size())) return {};
  return dims_of(data_->graph.shape(index));
}

std::string NetworkBuilder::error() const {
  if (!data_->status.ok()) return data_->status.error().message;
  const Status& graph = data_->graph.status();
  return graph.ok() ? "" : "network '" + data_->graph.graph().name + "', " + graph.error().message;
}

Outcome<Network> NetworkBuilder::finish(const std::vector<Var>& outputs) {
  std::vector<int> values;
  for (const Var& output : outputs) values.push_back(data_->index(output));
  if (data_->failed()) return invalid_input(error());
  const std::string name = data_->graph.graph().name;
  auto graph = data_->graph.finish(values);
  if (!graph.ok()) {
    return invalid_input("network '" + name + "': " + graph.error().message);
  }
  for (const auto& [compared, weight] : data_->loss_weights) {
    const Status status = ops::set_loss_weight(*graph, compared, weight);
    if (!status.ok()) return invalid_input("network '" + name + "': " + status.error().message);
  }
  return network_of_graph(std::move(*graph));
}

int exponent_for(double largest) {
  int exponent = kExponentMin;
  while (exponent < kExponentMax && std::ldexp(32767.5, exponent) <= std::abs(largest)) ++exponent;
  return exponent;
}

}  // namespace mantissa
