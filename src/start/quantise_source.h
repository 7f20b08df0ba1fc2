// A trained network that will be quantised, ready to run, and the inputs of its layers.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "quantise/activations/activation_statistics.h"
#include "run/plan/run_data.h"
#include "run/plan/run_plan.h"
#include "run/progress.h"
#include "run/settings/run_config.h"
#include "run/settings/starting_point.h"
#include "runtime/state.h"
#include "start/quantised_network.h"

namespace mantissa {

struct QuantiseSource {
  const RunConfig& config;
  RunPlan plan;  // of the trained network
  RunData data;
  State state;  // with the trained parameters
  TrainedFile trained;
  MemoryPlan memory = {};  // of layer_inputs, and everything loaded so far
};

// Loads the network and the data of a run that starts from trained weights (config.from). An error
// if the file lacks a parameter of the network.
Result<QuantiseSource> load_source(const RunConfig& config, const TrainObserver& observer);

// The inputs of a layer on training examples.
struct LayerInputs {
  quantise::ActivationStatistics statistics;  // of layers that read fewer than 8 bits
  // Some windows of the input, each as a row of the layer's weights: [rows, features].
  std::vector<float> rows;
};

struct InputSettings {
  int64_t examples = 1280;
  // Whether rows are kept, of layers without groups whose weights have fewer than 8 bits.
  bool keeps_rows = false;
};

// Runs the network in inference mode on training examples, and collects the inputs of layers, by
// layer. The memory does not depend on the examples' number: the source gets its plan first, and
// more than the settings' budget is an error.
Result<std::vector<LayerInputs>> layer_inputs(QuantiseSource& source,
                                              const std::vector<QuantisedLayer>& layers,
                                              const InputSettings& settings);

}  // namespace mantissa
