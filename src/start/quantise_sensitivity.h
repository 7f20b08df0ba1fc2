// The cost of each layer's few bits alone: `mantissa quantize --sensitivity`.
#pragma once

#include <vector>

#include "base/result.h"
#include "quantise/sensitivity.h"
#include "start/quantise.h"

namespace mantissa {

struct NetworkSensitivity {
  // For the network with 8 bits everywhere. An accuracy is -1 if numbers are predicted.
  double loss = 0, accuracy = 0;
  int64_t examples = 0;  // that losses are of
  struct Layer {
    LayerOutcome outcome;
    double loss = 0, accuracy = 0;
  };
  std::vector<Layer> layers;         // layers of fewer bits, in the network's order
  quantise::SensitivityTable table;  // with the indices of `layers`
};

// Freezes and measures the network once with each layer of fewer than 8 bits quantised alone, on
// validation examples: the data's own, or the ones that config.validation holds back. The
// statistics of batch norms keep their trained values.
Result<NetworkSensitivity> sensitivity(const RunConfig& config, const QuantiseSettings& settings,
                                       const TrainObserver& observer);

}  // namespace mantissa
