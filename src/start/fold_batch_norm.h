// Batch norms folded into the layers before them, so that training goes on in the arithmetic of the
// frozen network (docs/decisions/0138-a-form-without-ties.md).
#pragma once

#include "base/result.h"
#include "onnx/import/import.h"
#include "run/progress.h"
#include "run/settings/run_config.h"
#include "runtime/named_parameters.h"

namespace mantissa {

// The network without its batch norms, and its parameters: weights and biases of a layer are those
// that compute the same with the running statistics. `parameters`: of the trained network. An error
// names a batch norm that no layer's result goes into alone.
Result<onnx::ImportedNetwork> fold_batch_norms(const Graph& network,
                                               std::span<const NamedParameter> parameters);

// Makes the folder of a run that starts so: network.json and start.safetensors, which `config`
// names from then on.
Status begin_without_batch_norms(const TrainObserver& observer, RunConfig& config);

}  // namespace mantissa
