// Batch norms for networks whose own were folded into the convolutions (docs/onnx.md, 0072).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "data/datasets/dataset.h"
#include "onnx/import/import.h"
#include "run/progress.h"
#include "run/settings/run_config.h"

namespace mantissa {

struct MeasuringSettings {
  uint64_t seed = 1;  // draws the examples
  int threads = 1;
  Isa isa = Isa::kScalar;
};

// Puts a batch norm after each convolution that has a bias, makes more than one place and has no
// batch norm yet. The convolution that makes the output gets none. Means and variances are measured
// in fp32 on up to 2,048 training examples, scales and offsets are such that the network computes
// the same, and the weights of a channel are divided by its deviation. Returns the names of the
// convolutions. An error if there is no such convolution, and errors of running the network.
Result<std::vector<std::string>> insert_batch_norms(const ExampleSet& examples,
                                                    const MeasuringSettings& settings,
                                                    onnx::ImportedNetwork& imported);

// A line about them for people.
std::string describe_inserted_norms(const std::vector<std::string>& layers);

// Makes the folder of a run that starts from an ONNX model with batch norms put back: network.json
// and start.safetensors, which `config` names from then on. If a resumed run has them, they stay.
// If it fails, it removes a folder that it made.
Status begin_with_batch_norms(const TrainObserver& observer, RunConfig& config);

}  // namespace mantissa
