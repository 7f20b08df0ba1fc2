// Networks of few bits, made from networks that a harness has trained on a few pictures.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "networks/network.h"
#include "numerics/lazy_update.h"
#include "quantise/starts.h"
#include "runtime/named_parameters.h"
#include "start/quantise.h"
#include "tests/harness.h"

namespace mantissa::testing {

using quantise::TrainingMethod;

constexpr int64_t kExamples = 64, kBatch = 32;
constexpr std::pair<const char*, TrainingMethod> kMethods[] = {
    {"wrpn", TrainingMethod::kWrpn},       {"dorefa", TrainingMethod::kDorefa},
    {"pact", TrainingMethod::kPact},       {"hwgq", TrainingMethod::kHalfWaveGaussian},
    {"uniform", TrainingMethod::kUniform}, {"lsq", TrainingMethod::kLsq},
    {"lsqplus", TrainingMethod::kLsqPlus}};

enum class Sides { kWeights, kActivations, kBoth };
constexpr Sides kAllSides[] = {Sides::kWeights, Sides::kActivations, Sides::kBoth};

inline const RunConfig& config() {
  static const RunConfig made = [] {
    auto result = make_run_config({{"model", "resnet8"},
                                   {"data", "fashion-mnist"},
                                   {"batch-size", std::to_string(kBatch)},
                                   {"threads", "2"},
                                   {"out", "unused"}});
    EXPECT_TRUE(result.ok());
    return std::move(*result);
  }();
  return made;
}

inline RunData some_pictures() {
  RunData data;
  data.train = examples_from(0, kExamples, examples_of(fashion_mnist().train));
  return data;
}

inline State state_with(const Graph& network, std::span<const NamedParameter> parameters) {
  auto state = State::create(training_layout(network, config().format, OptimizerKind::kMomentum));
  EXPECT_TRUE(state.ok());
  initialise(network, config().format, 1, *state);
  const auto taken = take_named_parameters(network, config().format, parameters, *state);
  EXPECT_TRUE(taken.ok() && taken->initial.empty()) << (taken.ok() ? "" : taken.error().message);
  return std::move(*state);
}

// The network of a harness as a source of quantisation.
inline QuantiseSource source_of(Harness& harness) {
  RunPlan plan;
  plan.network = plan.graph = harness.graph();
  return {config(),
          std::move(plan),
          some_pictures(),
          state_with(harness.graph(), named_parameters(harness.graph(), harness.state())),
          {}};
}

inline const NamedParameter& named(const std::vector<NamedParameter>& parameters,
                                   const std::string& name) {
  return *std::find_if(parameters.begin(), parameters.end(),
                       [&](const NamedParameter& p) { return p.name == name; });
}

inline const Parameter& parameter_named(const Graph& network, const std::string& name) {
  const auto found = std::find_if(network.parameters.begin(), network.parameters.end(),
                                  [&](const Parameter& p) { return p.name == name; });
  EXPECT_NE(found, network.parameters.end()) << name;
  return *found;
}

inline std::vector<int> mantissas_of(const NamedParameter& weights) {
  std::vector<int> mantissas;
  for (const std::byte byte : weights.numbers) mantissas.push_back(static_cast<int8_t>(byte));
  return mantissas;
}

// A quantised network, in a state of its own.
struct Quantised {
  std::vector<QuantisedLayer> layers;  // of the source's network
  QuantisedStart start;
  State state;
};

inline QuantiseSettings settings_of(TrainingMethod method, Sides sides = Sides::kBoth,
                                    LayerBits bits = {3, 3}) {
  QuantiseSettings settings;
  settings.training = method;
  settings.calibration_examples = kExamples;
  settings.bits.all = bits;
  settings.bits.ends = 0;
  settings.bits.only_weights = sides == Sides::kWeights;
  settings.bits.only_activations = sides == Sides::kActivations;
  return settings;
}

inline Quantised quantised(QuantiseSource& source, const QuantiseSettings& settings) {
  auto layers = quantised_layers(source.plan.network, settings.bits);
  EXPECT_TRUE(layers.ok());
  auto inputs = layer_inputs(source, *layers, input_settings(settings));
  EXPECT_TRUE(inputs.ok());
  auto start = quantise_network(source, *layers, *inputs, settings);
  EXPECT_TRUE(start.ok()) << (start.ok() ? "" : start.error().message);
  State state = state_with(start->network, start->parameters);
  return {std::move(*layers), std::move(*start), std::move(state)};
}

// The numbers V of trained weights, in units of the waiting part.
inline std::vector<int64_t> lazy_values(const NamedParameter& weights) {
  std::vector<int64_t> values;
  const std::vector<int> mantissas = mantissas_of(weights);
  for (size_t i = 0; i < mantissas.size(); ++i) {
    int16_t waiting = 0;
    std::memcpy(&waiting, weights.accumulator.data() + i * sizeof waiting, sizeof waiting);
    values.push_back(lazy_value(mantissas[i], waiting, weights.lazy_shift));
  }
  return values;
}

// After layers the scales are a batch norm's in one model, and a rescale's in the other.
constexpr const char* kModels[] = {"resnet8", "lenet5"};

inline Harness trained_harness(const char* model) {
  return Harness({.model = model,
                  .batch_size = kBatch,
                  .micro_batch_size = kBatch,
                  .threads = 2,
                  .width = 0.5});
}

}  // namespace mantissa::testing
