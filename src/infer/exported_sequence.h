// Networks that read tokens as ONNX models (docs/onnx.md, "Networks of sequences"; decision 0095).
#pragma once

#include "base/result.h"
#include "infer/encoder.h"
#include "infer/frozen_network.h"
#include "onnx/export/exporter.h"

namespace mantissa {

// The metadata entry that marks a model as such an export, and names its form.
constexpr const char* kSequenceForm = "mantissa.sequence_form";
constexpr const char* kIntegerLayers = "integer linear layers";
constexpr const char* kRealNumbers = "real numbers";

// The model of onnx/export/exporter.h. Its metadata name its source. Errors: a target other than
// ONNX Runtime, and errors of export_network.
Result<onnx::ExportedModel> export_sequences(const FrozenNetwork& network,
                                             onnx::ExportTarget target);
Result<onnx::ExportedModel> export_encoder(const Encoder& encoder, onnx::ExportTarget target);

}  // namespace mantissa
