// Frozen networks as TensorFlow Lite files (docs/tflite.md).
#pragma once

#include "base/result.h"
#include "infer/frozen_network.h"
#include "tflite/model.h"

namespace mantissa {

// The model of a network in the tie-free form, with metadata: the entry "mantissa", a JSON text
// with the hash of the run's weights and of the frozen network, preprocessing, and labels.
Result<tflite::ModelData> export_tflite(const FrozenNetwork& network);

}  // namespace mantissa
