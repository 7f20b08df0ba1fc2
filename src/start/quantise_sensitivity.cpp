#include "start/quantise_sensitivity.h"

#include <algorithm>
#include <utility>

#include "infer/tasks/classification.h"
#include "run/plan/run_inference.h"
#include "runtime/memory.h"

namespace mantissa {
namespace {

// The score of a network with its start on the validation examples, frozen.
Result<Score> score_of(const QuantiseSource& source, const QuantisedStart& start) {
  RunConfig config = source.config;
  config.network = start.network;
  config.start.reset();
  MANTISSA_ASSIGN(RunPlan plan, plan_run(config, source.data.info));
  MANTISSA_RETURN_IF_ERROR(set_channel_means(config, source.data.channel_means, plan));
  MANTISSA_ASSIGN(State state, State::create(plan.layout));
  initialise(plan.graph, config.format, config.seed, state);
  MANTISSA_RETURN_IF_ERROR(
      take_named_parameters(plan.graph, config.format, start.parameters, state));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(plan.arena_bytes()));
  ThreadPool pool(config.threads);
  const Machine machine{pool, arena.span(), config.isa};
  MANTISSA_ASSIGN(const Task task, run_task(config, plan, source.data));
  return validate_run({config, plan, source.data, machine}, task, state,
                      [](int64_t) { return true; });
}

}  // namespace

Result<NetworkSensitivity> sensitivity(const RunConfig& config, const QuantiseSettings& settings,
                                       const TrainObserver& observer) {
  MANTISSA_ASSIGN(QuantiseSource source, load_source(config, observer));
  if (source.plan.validation_examples == 0) {
    return invalid_input("sensitivity: " + config.data +
                         " has no validation examples; --validation holds back some");
  }
  MANTISSA_ASSIGN(const std::vector<QuantisedLayer> layers,
                  quantised_layers(source.plan.network, settings.bits));
  MANTISSA_ASSIGN(const std::vector<LayerInputs> inputs,
                  layer_inputs(source, layers, input_settings(settings)));
  if (std::none_of(layers.begin(), layers.end(),
                   [](const QuantisedLayer& layer) { return layer.has_few_bits(); })) {
    return invalid_input(
        "sensitivity: no layer would get fewer bits than it has; --ends 0 gives the first and last "
        "layers as few as the others");
  }
  std::vector<QuantisedLayer> whole = layers;
  for (QuantisedLayer& layer : whole) layer.bits = {};
  NetworkSensitivity result;
  MANTISSA_ASSIGN(const QuantisedStart none, quantise_network(source, whole, inputs, settings));
  MANTISSA_ASSIGN(const Score unchanged, score_of(source, none));
  result.loss = unchanged.loss;
  const auto accuracy_of = [&](const Score& score) {
    return score.regression || !score.outputs.empty() ? -1 : score.accuracy();
  };
  result.accuracy = accuracy_of(unchanged);
  result.examples = unchanged.examples;
  std::vector<quantise::LayerLoss> losses;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].bits.weights >= kWholeBits && layers[i].bits.activations >= kWholeBits) continue;
    std::vector<QuantisedLayer> one = whole;
    one[i] = layers[i];
    MANTISSA_ASSIGN(const QuantisedStart start, quantise_network(source, one, inputs, settings));
    MANTISSA_ASSIGN(const Score score, score_of(source, start));
    const Node& node = source.plan.network.nodes[layers[i].node];
    result.layers.push_back({start.layers[i], score.loss, accuracy_of(score)});
    losses.push_back({.name = node.name,
                      .loss = score.loss,
                      .weights = source.plan.network.parameters[node.parameters[0]].shape.count(),
                      .bits = layers[i].bits.weights,
                      .input_bits = layers[i].bits.activations});
    if (!tell_done(observer, TrainEventKind::kEvaluating, static_cast<int64_t>(i) + 1,
                   std::ssize(layers))) {
      return make_error(ErrorCode::kInterrupted, "interrupted; nothing was written");
    }
  }
  MANTISSA_ASSIGN(result.table, quantise::sensitivity_table(result.loss, losses, kWholeBits));
  return result;
}

}  // namespace mantissa
