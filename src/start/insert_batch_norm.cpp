#include "start/insert_batch_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "data/batches/ordered_batches.h"
#include "graph/rebuild.h"
#include "infer/freeze.h"
#include "infer/programs.h"
#include "kernels/kernel_table.h"
#include "models/json/network_json.h"
#include "networks/folded_norms.h"
#include "networks/imported_network.h"
#include "networks/network.h"
#include "ops/norms/batch_norm.h"
#include "ops/ops.h"
#include "plan/programs/state_layout.h"
#include "run/settings/run_folder.h"
#include "run/settings/run_network.h"
#include "runtime/memory.h"
#include "start/float_state.h"
#include "start/prepared_start.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostExamples = 2048;
constexpr int64_t kMostNumbersAtOnce = int64_t{1} << 24;  // of the convolutions' results
constexpr double kLeastDeviation = 0.01;                  // of a channel, relative to the layer's

struct Convolution {
  int node;
  // By channel, over all places of all examples.
  std::vector<double> mean = {}, variance = {};
};

std::string norm_name(const std::string& layer) { return layer + ".norm"; }

// Sums and squares of each channel, in double.
class ChannelSums {
 public:
  explicit ChannelSums(int64_t channels)
      : sums_(static_cast<size_t>(channels)), squares_(static_cast<size_t>(channels)) {}

  void add(const Tensor& values) {
    const auto channels = std::ssize(sums_);
    const auto* row = values.as<float>();
    const int64_t rows = values.count() / channels;
    for (int64_t r = 0; r < rows; ++r, row += channels) {
      for (int64_t c = 0; c < channels; ++c) {
        const double number = row[c];
        sums_[c] += number;
        squares_[c] += number * number;
      }
    }
    rows_ += rows;
  }

  void finish(Convolution& convolution) const {
    const auto rows = static_cast<double>(rows_);
    for (size_t c = 0; c < sums_.size(); ++c) {
      const double mean = sums_[c] / rows;
      convolution.mean.push_back(mean);
      convolution.variance.push_back(std::max(0.0, squares_[c] / rows - mean * mean));
    }
  }

 private:
  std::vector<double> sums_, squares_;
  int64_t rows_ = 0;
};

// The network with the convolutions' results as its outputs, and sums over each of them.
struct Watched {
  Graph network;
  std::vector<ChannelSums> sums = {};
  int64_t numbers = 1;  // of all of them, of one example

  Watched(const Graph& from, const std::vector<Convolution>& convolutions) : network(from) {
    network.outputs.clear();
    for (const Convolution& convolution : convolutions) {
      const int value = network.nodes[convolution.node].outputs[0];
      const Shape& shape = network.values[value].shape;
      network.outputs.push_back(value);
      numbers += shape.count();
      sums.emplace_back(shape.last());
    }
  }
};

// Runs the network in fp32, and takes mean and variance of the convolutions' results.
Status measure(const ExampleSet& examples, const MeasuringSettings& settings,
               const onnx::ImportedNetwork& imported, std::vector<Convolution>& convolutions) {
  Watched watched(imported.graph, convolutions);
  const int64_t count = std::min(examples.count, kMostExamples);
  const int64_t batch =
      std::clamp<int64_t>(kMostNumbersAtOnce / watched.numbers, 1, std::min<int64_t>(count, 64));
  MANTISSA_ASSIGN(State state, float_state(imported, settings.seed));
  const kernels::KernelTable table = kernels::select_kernels(settings.isa);
  MANTISSA_ASSIGN(const Program program, compile(watched.network,
                                                 {.kind = ProgramKind::kInference,
                                                  .micro_batch_size = batch,
                                                  .with_loss = false,
                                                  .exponents = ExponentMode::kCalibrate,
                                                  .format = kFloatFormat},
                                                 {&table, settings.threads}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  ThreadPool pool(settings.threads);
  Programs programs(watched.network, state, {pool, arena.span(), settings.isa});
  programs.add(program);
  const int64_t batches = count / batch;
  MANTISSA_ASSIGN(
      OrderedBatches source,
      OrderedBatches::create(inputs_of(examples), batch,  // the network may have fewer classes
                             calibration_examples(examples.count, settings.seed, batches * batch)));
  for (int64_t i = 0; i < batches; ++i) {
    MANTISSA_RETURN_IF_ERROR(programs.infer(source.next()));
    for (size_t c = 0; c < watched.sums.size(); ++c) {
      watched.sums[c].add(programs.outputs(static_cast<int>(c)));
    }
  }
  for (size_t c = 0; c < watched.sums.size(); ++c) watched.sums[c].finish(convolutions[c]);
  return {};
}

Result<Graph> with_norms(const Graph& network, const std::vector<Convolution>& convolutions) {
  const auto gets_norm = [&](int n) {
    return std::any_of(convolutions.begin(), convolutions.end(),
                       [&](const Convolution& convolution) { return convolution.node == n; });
  };
  GraphChanges changes;
  changes.before = [&](GraphBuilder&, int n, std::vector<int>&, Attributes& attributes) {
    if (!gets_norm(n)) return;
    std::vector<Attributes::Item> items = attributes.items();
    for (auto& [name, value] : items) {
      if (name == "bias") value = int64_t{0};
    }
    attributes = Attributes(std::move(items));
  };
  changes.behind = [&](GraphBuilder& builder, int n, int output) {
    if (!gets_norm(n)) return output;
    return builder.add(ops::kBatchNorm, norm_name(network.nodes[n].name), {output});
  };
  return rebuilt(network, changes);
}

// By name: the parameters of the original network, and of its norms.
using ParametersByName = std::map<std::string, onnx::ImportedParameter>;

// w / s for each channel, where s is its deviation; the norm after it multiplies by s again.
void normalise(const Convolution& convolution, const std::string& layer,
               ParametersByName& parameters) {
  std::vector<float>& weights = parameters.at(layer + ".weights").floats;
  const std::vector<float> bias = std::move(parameters.at(layer + ".bias").floats);
  const size_t channels = bias.size(), length = weights.size() / channels;
  double largest = 0;
  for (const double variance : convolution.variance) {
    largest = std::max(largest, std::sqrt(variance));
  }
  std::vector<float> scales, offsets;
  std::vector<double> means, variances;
  for (size_t c = 0; c < channels; ++c) {
    const double deviation = std::sqrt(convolution.variance[c]);
    const double divisor = largest > 0 ? std::max(deviation, kLeastDeviation * largest) : 1;
    for (size_t i = 0; i < length; ++i) {
      weights[c * length + i] = static_cast<float>(weights[c * length + i] / divisor);
    }
    const double variance = convolution.variance[c] / (divisor * divisor);
    means.push_back((convolution.mean[c] - bias[c]) / divisor);
    variances.push_back(variance);
    scales.push_back(static_cast<float>(divisor * std::sqrt(variance + ops::kBatchNormEpsilon)));
    offsets.push_back(static_cast<float>(convolution.mean[c]));
  }
  const Shape shape{static_cast<int64_t>(channels)};
  const std::string norm = norm_name(layer);
  parameters[norm + ".scale"] = {norm + ".scale", shape, std::move(scales), {}};
  parameters[norm + ".offset"] = {norm + ".offset", shape, std::move(offsets), {}};
  parameters[norm + ".running_mean"] = {norm + ".running_mean", shape, {}, std::move(means)};
  parameters[norm + ".running_variance"] = {
      norm + ".running_variance", shape, {}, std::move(variances)};
}

}  // namespace

Result<std::vector<std::string>> insert_batch_norms(const ExampleSet& examples,
                                                    const MeasuringSettings& settings,
                                                    onnx::ImportedNetwork& imported) {
  std::vector<Convolution> convolutions;
  for (const int n : convolutions_without_norm(imported.graph)) convolutions.push_back({n});
  if (convolutions.empty()) {
    return invalid_input("insert-batch-norm: '" + imported.graph.name +
                         "' has no convolution with a bias and without a batch norm behind it");
  }
  MANTISSA_RETURN_IF_ERROR(measure(examples, settings, imported, convolutions));
  MANTISSA_ASSIGN(Graph graph, with_norms(imported.graph, convolutions));
  ParametersByName parameters;
  for (onnx::ImportedParameter& parameter : imported.parameters) {
    parameters[parameter.name] = std::move(parameter);
  }
  std::vector<std::string> layers;
  for (const Convolution& convolution : convolutions) {
    layers.push_back(imported.graph.nodes[convolution.node].name);
    normalise(convolution, layers.back(), parameters);
  }
  imported.parameters.clear();
  for (const Parameter& parameter : graph.parameters) {
    const auto found = parameters.find(parameter.name);
    if (found != parameters.end()) imported.parameters.push_back(std::move(found->second));
  }
  imported.graph = std::move(graph);
  return layers;
}

std::string describe_inserted_norms(const std::vector<std::string>& layers) {
  return "batch norms were put behind " + std::to_string(layers.size()) + " convolutions, " +
         layers.front() + " to " + layers.back();
}

namespace {

// Into the run's folder: the network with batch norms, and its parameters.
Status write_with_batch_norms(const TrainObserver& observer, const RunConfig& config) {
  const fs::path folder = config.out;
  MANTISSA_ASSIGN(const FolderLock lock, prepare_run_folder(config));
  MANTISSA_ASSIGN(const Dataset data, load_dataset(config.data, true, false, data_options(config)));
  RunConfig adapted = config;  // the network fits the data, or this says why not
  MANTISSA_RETURN_IF_ERROR(adapt_classes(data.info, adapted));
  MANTISSA_RETURN_IF_ERROR(model_options(adapted, data.info));
  MANTISSA_ASSIGN(onnx::ImportedNetwork imported, import_file(config.from, adapted.import_options));
  MANTISSA_ASSIGN(
      const std::vector<std::string> layers,
      insert_batch_norms(data.train, {config.seed, config.threads, config.isa}, imported));
  if (!has_several_outputs(imported.graph) && !data.info.target.is_number() &&
      !has_one_logit(imported.graph) &&
      imported.graph.classes() != data.info.target.classes) {
    MANTISSA_RETURN_IF_ERROR(set_classes(data.info.target.classes, config.classifier,
                                         config.import_options.output, imported));
  }
  for (const std::string& note : imported.notes) tell_message(observer, note);
  tell_message(observer, describe_inserted_norms(layers));
  MANTISSA_RETURN_IF_ERROR(
      write_start(folder / kStartFile, {.source = config.from}, named_parameters(imported)));
  return write_text_atomically(folder / kNetworkFile, to_json(imported.graph));
}

}  // namespace

Status begin_with_batch_norms(const TrainObserver& observer, RunConfig& config) {
  if (!config.inserts_batch_norm) return {};
  MANTISSA_RETURN_IF_ERROR(
      begin_prepared(config, [&] { return write_with_batch_norms(observer, config); }));
  config.inserts_batch_norm = false;
  return {};
}

}  // namespace mantissa
