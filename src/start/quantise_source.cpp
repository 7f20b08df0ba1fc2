#include "start/quantise_source.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "base/random.h"
#include "data/batches/ordered_batches.h"
#include "infer/freeze.h"
#include "infer/programs.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_shape.h"
#include "ops/ops.h"
#include "runtime/memory.h"

namespace mantissa {
namespace {

// Each example is added as a separate input: offsets are means of the examples' minima.
template <typename T>
void add_examples(const Tensor& values, quantise::ActivationStatistics& statistics) {
  const auto length = static_cast<size_t>(values.count() / values.shape[0]);
  for (int64_t example = 0; example < values.shape[0]; ++example) {
    const std::span<const T> one(values.as<T>() + static_cast<size_t>(example) * length, length);
    if constexpr (std::is_same_v<T, float>) {
      statistics.add(one);
    } else {
      statistics.add(one, *values.exponent);
    }
  }
}

void add_values(const Tensor& values, quantise::ActivationStatistics& statistics) {
  if (values.type == DataType::kFloat) return add_examples<float>(values, statistics);
  values.type == DataType::kInt8 ? add_examples<int8_t>(values, statistics)
                                 : add_examples<int16_t>(values, statistics);
}

// The reason that the file lacks a part of the network. quantize needs all parts; train would begin
// such a part anew.
Error lacks(const RunConfig& config, const RunPlan& plan) {
  const StartingPoint& start = *config.start;
  for (const NamedParameter& there : start.parameters) {
    for (const Parameter& here : plan.graph.parameters) {
      if (there.name != here.name || there.shape == here.shape) continue;
      return invalid_input("from: " + start.source + " has " + there.name + " " +
                           to_string(there.shape) + ", and a network for " + config.data + " has " +
                           to_string(here.shape) +
                           ": quantize takes data of the shape and the classes that the network "
                           "was trained for; train --from brings it to others");
    }
  }
  return invalid_input("from: " + start.source + " lacks " + plan.taken.initial[0] +
                       (plan.taken.initial.size() > 1 ? " and others" : "") +
                       ", without which the network cannot be quantised (model.safetensors and "
                       "exported files have no batch norms any more); name the folder of a run, or "
                       "a checkpoint");
}

}  // namespace

Result<QuantiseSource> load_source(const RunConfig& config, const TrainObserver& observer) {
  MANTISSA_ASSIGN(const DatasetInfo found, inspect_run_data(config));
  MANTISSA_ASSIGN(RunPlan plan, plan_run(config, found));
  for (const std::string& note : config.notes) tell_message(observer, note);
  for (const std::string& note : found.notes) tell_message(observer, config.data + ": " + note);
  MANTISSA_ASSIGN(RunData data, load_run_data(config, found, plan));
  MANTISSA_RETURN_IF_ERROR(set_channel_means(config, data.channel_means, plan));
  if (!plan.taken.initial.empty()) return lacks(config, plan);
  MANTISSA_ASSIGN(State state, State::create(plan.layout));
  initialise(plan.graph, config.format, config.seed, state);
  MANTISSA_ASSIGN(TrainedFile trained, reread(*config.start));
  MANTISSA_RETURN_IF_ERROR(take_trained(plan.graph, config.format, trained, state));
  return QuantiseSource{config, std::move(plan), std::move(data), std::move(state),
                        std::move(trained)};
}

namespace {

constexpr int64_t kMostRows = 1024;  // of a layer
constexpr int64_t kMostRowNumbers = int64_t{1} << 21;

bool wants_statistics(const QuantisedLayer& layer) { return layer.bits.activations < kWholeBits; }

bool wants_rows(const Graph& network, const QuantisedLayer& layer, const InputSettings& settings) {
  const Node& node = network.nodes[layer.node];
  const bool is_whole =
      node.op == &ops::kLinear || node.attributes.as<ops::LayerAttributes>().groups == 1;
  return settings.keeps_rows && is_whole && layer.bits.weights < kWholeBits;
}

int64_t row_count(int64_t features) {
  return std::clamp<int64_t>(kMostRowNumbers / features, 1, kMostRows);
}

// How many rows of a layer each of this many batches gives: some of each, or one of every few.
struct RowDraw {
  int64_t per_batch = 1, every = 1, rows = 1;
};

RowDraw row_draw(int64_t features, int64_t batches) {
  const int64_t most = row_count(features), every = divide_up(batches, most);
  const int64_t per_batch = divide_up(most, batches);
  return {per_batch, every, per_batch * divide_up(batches, every)};
}

// Windows of a layer's input that are drawn by a seed.
class RowSampler {
 public:
  RowSampler(const Graph& network, const QuantisedLayer& layer, int64_t batches, uint64_t seed)
      : node_(network.nodes[layer.node]),
        weights_(network.parameters[node_.parameters[0]].shape),
        output_(network.values[node_.outputs[0]].shape),
        seed_(seed),
        layer_(static_cast<uint32_t>(layer.node)),
        draw_(row_draw(weights_.count() / weights_[0], batches)) {}

  void add(const Tensor& input, std::vector<float>& rows) {
    if (batch_++ % draw_.every != 0) return;
    for (int64_t i = 0; i < draw_.per_batch; ++i) {
      // One of all output vectors of the batch.
      const int64_t places = input.shape[0] * output_.count() / output_.last();
      const auto place =
          static_cast<int64_t>(random_bits(seed_, RandomStream::kSynthetic, layer_, drawn_++) %
                               static_cast<uint64_t>(places));
      weights_.rank == 4 ? add_window(input, place, rows) : add_vector(input, place, rows);
    }
  }

 private:
  static float number(const Tensor& input, int64_t i) {
    if (input.type == DataType::kFloat) return input.as<float>()[i];
    const int mantissa =
        input.type == DataType::kInt8 ? input.as<int8_t>()[i] : input.as<int16_t>()[i];
    return std::ldexp(static_cast<float>(mantissa), *input.exponent);
  }

  static void add_vector(const Tensor& input, int64_t place, std::vector<float>& rows) {
    const int64_t length = input.shape.last();
    for (int64_t c = 0; c < length; ++c) rows.push_back(number(input, place * length + c));
  }

  void add_window(const Tensor& input, int64_t place, std::vector<float>& rows) const {
    const auto& layer = node_.attributes.as<ops::LayerAttributes>();
    const auto [vertical, horizontal] =
        ops::convolution_axes(layer, ops::are_sequences(input.shape));
    const int64_t dilation = layer.dilation;
    const Shape images = ops::as_images(input.shape), result = ops::as_image(output_);
    const int64_t height = images[1], width = images[2], channels = images[3];
    const int64_t pixels = result[0] * result[1], image = place / pixels;
    const int64_t oy = place % pixels / result[1], ox = place % result[1];
    for (int64_t ky = 0; ky < weights_[1]; ++ky) {
      for (int64_t kx = 0; kx < weights_[2]; ++kx) {
        const int64_t y = oy * vertical.stride + ky * dilation - vertical.padding;
        const int64_t x = ox * horizontal.stride + kx * dilation - horizontal.padding;
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        for (int64_t c = 0; c < channels; ++c) {
          rows.push_back(inside ? number(input, ((image * height + y) * width + x) * channels + c)
                                : 0.0f);
        }
      }
    }
  }

  const Node& node_;
  const Shape &weights_, &output_;
  uint64_t seed_;
  uint32_t layer_;
  RowDraw draw_;
  int64_t batch_ = 0;
  uint64_t drawn_ = 0;
};

// Bytes that the training of a layer's rounding has at most, beside its rows: their copy on the
// grid, targets in both precisions, and of each weight twelve numbers
// (quantise/weights/adaround.cpp).
int64_t rounding_bytes(int64_t rows, int64_t features, int64_t outputs) {
  constexpr int64_t kOfWeight = 12 * sizeof(double);
  return rows * features * int64_t{sizeof(float)} +
         rows * outputs * int64_t{sizeof(float) + sizeof(double)} + features * outputs * kOfWeight;
}

int value_named(const Graph& graph, const std::string& name) {
  const auto found = std::find_if(graph.values.begin(), graph.values.end(),
                                  [&](const Value& value) { return value.name == name; });
  return static_cast<int>(found - graph.values.begin());
}

MemoryPlan memory_of(const QuantiseSource& source, const Program& program,
                     const std::vector<QuantisedLayer>& layers, const InputSettings& settings,
                     int64_t batches) {
  const Graph& network = source.plan.network;
  int64_t statistics = 0, rows = 0, rounding = 0;
  for (const QuantisedLayer& layer : layers) {
    if (wants_statistics(layer)) statistics += quantise::ActivationStatistics::kMostBytes;
    if (!wants_rows(network, layer, settings)) continue;
    const Shape& weights = network.parameters[network.nodes[layer.node].parameters[0]].shape;
    const int64_t features = weights.count() / weights[0];
    const int64_t drawn = row_draw(features, batches).rows;
    rows += drawn * features * int64_t{sizeof(float)};
    rounding = std::max(rounding, rounding_bytes(drawn, features, weights[0]));
  }
  const int64_t file_bytes = source.config.start ? source.config.start->file_bytes : 0;
  MemoryPlan plan;
  plan.items = {{"data", source.data.info.bytes},
                {"trained network", source.state.layout().bytes + file_bytes},
                {"values of a batch", program.arena_bytes},
                {"statistics of activations", statistics},
                {"rows for rounding", rows},
                {"rounding of a layer", rounding}};
  plan.advice = "a smaller --micro-batch-size needs less";
  return plan;
}

}  // namespace

Result<std::vector<LayerInputs>> layer_inputs(QuantiseSource& source,
                                              const std::vector<QuantisedLayer>& layers,
                                              const InputSettings& settings) {
  const Graph& network = source.plan.network;
  Graph watched = source.plan.graph;  // which has more nodes, and values of the same names
  watched.outputs.clear();
  std::map<int, int> output_of;  // values of the network to outputs
  for (const QuantisedLayer& layer : layers) {
    if (!wants_statistics(layer) && !wants_rows(network, layer, settings)) continue;
    const int value = network.nodes[layer.node].inputs[0];
    if (output_of.try_emplace(value, static_cast<int>(watched.outputs.size())).second) {
      watched.outputs.push_back(value_named(watched, network.values[value].name));
    }
  }
  std::vector<LayerInputs> inputs(layers.size());
  if (watched.outputs.empty()) return inputs;
  const RunConfig& config = source.config;
  const kernels::KernelTable table = kernels::select_kernels(config.isa);
  const int64_t micro_batch = config.micro_batch_size;
  MANTISSA_ASSIGN(const Program program, compile(watched,
                                                 {.kind = ProgramKind::kInference,
                                                  .micro_batch_size = micro_batch,
                                                  .with_loss = false,
                                                  .exponents = ExponentMode::kCalibrate,
                                                  .format = config.format},
                                                 {&table, config.threads}));
  const Examples& examples = source.data.train;
  const int64_t wanted = std::min(settings.examples, examples.count) / micro_batch;
  const int64_t count = std::max<int64_t>(1, wanted);
  source.memory = memory_of(source, program, layers, settings, count);
  MANTISSA_RETURN_IF_ERROR(check_budget(source.memory, config.memory_budget));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  ThreadPool pool(config.threads);
  Programs programs(watched, source.state, {pool, arena.span(), config.isa});
  programs.add(program);
  MANTISSA_ASSIGN(OrderedBatches batches,
                  OrderedBatches::create(
                      examples, micro_batch,
                      calibration_examples(examples.count, config.seed, count * micro_batch)));
  std::vector<RowSampler> samplers;
  for (const QuantisedLayer& layer : layers) {
    samplers.emplace_back(network, layer, count, config.seed);
  }
  for (int64_t batch = 0; batch < count; ++batch) {
    MANTISSA_RETURN_IF_ERROR(programs.infer(batches.next()));
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto found = output_of.find(network.nodes[layers[i].node].inputs[0]);
      if (found == output_of.end()) continue;
      const Tensor values = programs.outputs(found->second);
      if (wants_statistics(layers[i])) add_values(values, inputs[i].statistics);
      if (wants_rows(network, layers[i], settings)) samplers[i].add(values, inputs[i].rows);
    }
  }
  return inputs;
}

}  // namespace mantissa
