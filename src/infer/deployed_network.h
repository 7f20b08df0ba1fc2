// A frozen network as an ONNX model, and back (docs/onnx.md, "Export"; decision 0069).
#pragma once

#include <filesystem>

#include "base/result.h"
#include "infer/frozen_network.h"
#include "onnx/export/exporter.h"

namespace mantissa {

// The model of onnx/export/exporter.h. Its metadata name its source, and hold the rest of the
// network beside the weights, unless results are near the network's. Errors: a network whose format
// is fp32 or has more than 8 bits, and errors of export_network.
Result<onnx::ExportedModel> export_frozen(const FrozenNetwork& network, onnx::ExportTarget target);

// The network of an exported file, bit for bit. A file that was changed after the export, or
// written by another program, is an error.
Result<FrozenNetwork> load_deployed(const std::filesystem::path& path);

// Whether `mantissa export` wrote an ONNX file that loads back, to judge by its metadata. An error
// for one that does not: whose results are near the network's, not equal.
Result<bool> is_deployed(const std::filesystem::path& path);

}  // namespace mantissa
