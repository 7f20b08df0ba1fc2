// A frozen network as an ONNX model.
#pragma once

#include "base/result.h"
#include "onnx/exporter.h"
#include "train/frozen_network.h"

namespace mantissa {

// The model of onnx/exporter.h, with metadata on where it comes from. Errors: a network that
// computes in fp32 or with more than 8 bits, and those of export_network.
Result<onnx::ExportedModel> export_frozen(const FrozenNetwork& network, onnx::ExportTarget target);

}  // namespace mantissa
