// From a trained network to a quantised one that starts where post-training quantisation ends
// (METHODS section 3; docs/quantisation.md).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "quantise/activations/activations.h"
#include "quantise/weights/weights.h"
#include "run/progress.h"
#include "run/settings/run_config.h"
#include "runtime/named_parameters.h"
#include "start/quantise_source.h"
#include "start/quantised_network.h"

namespace mantissa {

struct QuantiseSettings {
  QuantisedBits bits;
  quantise::WeightMethod weight_method = quantise::WeightMethod::kMmse;
  bool scales_per_channel = true;  // else one for each layer's weights
  bool has_full_range = false;     // weights from -n to n - 1, else from -(n - 1)
  bool trains_rounding = false;    // AdaRound: weights are rounded up or down by a training
  quantise::ActivationMethod activation_method = quantise::ActivationMethod::kMmse;
  // Weights begin where they were, between the points of the grid; else on its points. The first
  // forward pass is the same.
  bool starts_between = true;
  quantise::TrainingMethod training = quantise::TrainingMethod::kLsq;
  int64_t calibration_examples = 1280;
};

// The result of quantising a layer.
struct LayerOutcome {
  std::string name;
  LayerBits bits;
  bool any_scale = false;       // else its scales are powers of two
  double weight_error = 0;      // root of (squared error / squares); 0: 8 bits
  double activation_error = 0;  // the same of its input
  double range = 0;             // of its input; 0: 8 bits
  double offset = 0;            // the same, beginning of the range
  bool is_signed = false;
};

// The quantised network, and the parameters that it starts with.
struct QuantisedStart {
  Graph network;
  std::string source;     // file that the trained parameters are from
  std::string tokenizer;  // of a network of texts
  std::shared_ptr<const Vocabulary> vocabulary = nullptr;  // of a language model
  LearnedData learned = {};                                // columns and classes of the source
  std::vector<NamedParameter> parameters;
  std::vector<std::vector<std::byte>> bytes;  // that parameters point into
  std::vector<LayerOutcome> layers;
  MemoryPlan memory;  // of the quantisation, before any training
};

// Quantises the network that `config` starts from (config.from), in its form for training on the
// data. Runs it on training examples in inference mode, chooses grids for the inputs of layers, and
// grids and mantissas for weights. `observer` hears messages.
Result<QuantisedStart> quantise_network(const RunConfig& config, const QuantiseSettings& settings,
                                        const TrainObserver& observer);

// The same for a loaded network and other layers: layers from quantised_layers, and their inputs.
Result<QuantisedStart> quantise_network(const QuantiseSource& source,
                                        const std::vector<QuantisedLayer>& layers,
                                        const std::vector<LayerInputs>& inputs,
                                        const QuantiseSettings& settings);
InputSettings input_settings(const QuantiseSettings& settings);

// Writes network.json and start.safetensors into a folder. `settings`: kQuantisedEntry.
Status write_quantised(const std::filesystem::path& folder, const QuantisedStart& start,
                       const std::string& settings);

}  // namespace mantissa
