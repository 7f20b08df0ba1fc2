#include "start/fold_batch_norm.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/files/atomic_file.h"
#include "graph/sharing.h"
#include "models/json/network_json.h"
#include "networks/imported_network.h"
#include "ops/attributes.h"
#include "ops/norms/batch_norm.h"
#include "ops/ops.h"
#include "run/settings/run_folder.h"
#include "run/settings/run_network.h"
#include "start/prepared_start.h"
#include "start/quantise_source.h"

namespace mantissa {
namespace {

bool folds_norms(const Op* op) { return op == &ops::kConvolution || op == &ops::kLinear; }

Attributes with_bias(const Attributes& attributes) {
  std::vector<Attributes::Item> items = attributes.items();
  std::erase_if(items, [](const Attributes::Item& item) { return item.first == "bias"; });
  items.emplace_back("bias", int64_t{1});
  return Attributes(std::move(items));
}

class Folding {
 public:
  Folding(const Graph& network, std::span<const NamedParameter> parameters)
      : network_(network), builder_(network.name), read_(network.values.size(), -1) {
    for (const NamedParameter& parameter : parameters) source_[parameter.name] = &parameter;
  }

  Result<onnx::ImportedNetwork> run() {
    MANTISSA_RETURN_IF_ERROR(find_norms());
    for (const int input : network_.inputs) add_input(input);
    for (int n = 0; n < std::ssize(network_.nodes); ++n) {
      if (!is_norm(n)) add_node(n);
    }
    std::vector<int> outputs;
    for (const int output : network_.outputs) outputs.push_back(read_[output]);
    MANTISSA_ASSIGN(result_.graph, builder_.finish(outputs));
    return std::move(result_);
  }

 private:
  bool is_norm(int n) const { return network_.nodes[n].op == &ops::kBatchNorm; }

  Status find_norms() {
    const auto readers = readers_of(network_);
    for (int n = 0; n < std::ssize(network_.nodes); ++n) {
      if (!is_norm(n)) continue;
      const int input = network_.nodes[n].inputs[0], layer = network_.values[input].producer;
      const bool is_alone = layer >= 0 && folds_norms(network_.nodes[layer].op) &&
                            readers[input].size() == 1 && !network_.is_output(input) &&
                            !shares_parameters(network_, layer) && !shares_parameters(network_, n);
      if (!is_alone) {
        return invalid_input("fold-batch-norm: '" + network_.nodes[n].name +
                             "' is not behind a layer whose result it alone reads");
      }
      norm_of_[layer] = n;
    }
    if (!norm_of_.empty()) return {};
    return invalid_input("fold-batch-norm: '" + network_.name + "' has no batch norm");
  }

  void add_input(int index) {
    const Value& value = network_.values[index];
    if (value.element == Element::kNumber) {
      read_[index] = builder_.add_numbers(value.name, value.shape, value.exponent);
      return;
    }
    const Element element = value.type == DataType::kUint8 ? Element::kMantissa : value.element;
    read_[index] = builder_.add_input(value.name, value.shape, element);
  }

  void add_node(int n) {
    const Node& node = network_.nodes[n];
    std::vector<int> inputs;
    for (const int input : node.inputs) inputs.push_back(read_[input]);
    if (network_.is_loss(n)) {
      return builder_.add_loss(*node.op, node.name, inputs, node.attributes);
    }
    const auto norm = norm_of_.find(n);
    const bool folds = norm != norm_of_.end();
    const int owner = parameter_owner(network_, n);
    const Attributes attributes = folds ? with_bias(node.attributes) : node.attributes;
    const std::vector<int> outputs =
        owner >= 0 ? std::vector{builder_.add_sharing(read_[network_.nodes[owner].outputs[0]],
                                                      *node.op, node.name, inputs, attributes)}
                   : builder_.add_all(*node.op, node.name, inputs, attributes);
    for (size_t i = 0; i < outputs.size(); ++i) read_[node.outputs[i]] = outputs[i];
    if (folds) {
      read_[network_.nodes[norm->second].outputs[0]] = outputs[0];
      fold(node, network_.nodes[norm->second]);
    } else if (owner < 0) {
      for (const int parameter : node.parameters) take(network_.parameters[parameter].name);
    }
  }

  void take(const std::string& name) {
    const NamedParameter& from = *source_.at(name);
    onnx::ImportedParameter to{name, from.shape, {}, {}};
    const std::vector<double> numbers = real_numbers(from);
    if (from.type == DataType::kDouble) {
      to.doubles = numbers;
    } else {
      to.floats.assign(numbers.begin(), numbers.end());
    }
    result_.parameters.push_back(std::move(to));
  }

  std::vector<double> numbers_of(const Node& node, const char* part) const {
    const auto found = source_.find(node.name + "." + part);
    return found == source_.end() ? std::vector<double>() : real_numbers(*found->second);
  }

  void fold(const Node& layer, const Node& norm) {
    std::vector<double> weights = numbers_of(layer, "weights"), bias = numbers_of(layer, "bias");
    const std::vector<double> scale = numbers_of(norm, "scale"),
                              offset = numbers_of(norm, "offset"),
                              mean = numbers_of(norm, "running_mean"),
                              variance = numbers_of(norm, "running_variance");
    const size_t channels = scale.size(), row = weights.size() / channels;
    bias.resize(channels, 0.0);
    for (size_t c = 0; c < channels; ++c) {
      const double factor = scale[c] / std::sqrt(variance[c] + ops::kBatchNormEpsilon);
      for (size_t i = c * row; i < (c + 1) * row; ++i) weights[i] *= factor;
      bias[c] = offset[c] + (bias[c] - mean[c]) * factor;
    }
    const auto add = [&](const char* part, const Shape& shape, const std::vector<double>& numbers) {
      result_.parameters.push_back(
          {layer.name + "." + part, shape, {numbers.begin(), numbers.end()}, {}});
    };
    add("weights", network_.parameters[layer.parameters[0]].shape, weights);
    add("bias", Shape{static_cast<int64_t>(channels)}, bias);
  }

  const Graph& network_;
  std::map<std::string, const NamedParameter*> source_;
  GraphBuilder builder_;
  std::vector<int> read_;  // by value: what its readers get
  std::map<int, int> norm_of_;
  onnx::ImportedNetwork result_;
};

Status write_without_batch_norms(const TrainObserver& observer, const RunConfig& config) {
  const std::filesystem::path folder = config.out;
  MANTISSA_ASSIGN(const FolderLock lock, prepare_run_folder(config));
  RunConfig trained = config;
  trained.folds_batch_norm = false;
  MANTISSA_ASSIGN(const QuantiseSource source, load_source(trained, observer));
  MANTISSA_ASSIGN(
      const onnx::ImportedNetwork folded,
      fold_batch_norms(source.plan.network, named_parameters(source.plan.graph, source.state)));
  MANTISSA_RETURN_IF_ERROR(
      write_start(folder / kStartFile, {.source = config.from, .learned = config.start->learned},
                  named_parameters(folded)));
  return write_text_atomically(folder / kNetworkFile, to_json(folded.graph));
}

}  // namespace

Result<onnx::ImportedNetwork> fold_batch_norms(const Graph& network,
                                               std::span<const NamedParameter> parameters) {
  return Folding(network, parameters).run();
}

Status begin_without_batch_norms(const TrainObserver& observer, RunConfig& config) {
  if (!config.folds_batch_norm) return {};
  MANTISSA_RETURN_IF_ERROR(
      begin_prepared(config, [&] { return write_without_batch_norms(observer, config); }));
  config.folds_batch_norm = false;
  return {};
}

}  // namespace mantissa
