// What an ONNX file is, for `mantissa info net.onnx`.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace mantissa {

// Kind "ONNX network": producer, operator sets, inputs, outputs, layers with shapes, parameters and
// multiply-adds, for one example; and the nodes that are not supported, with reasons. Errors:
// those of onnx/reader.h.
Result<nlohmann::ordered_json> describe_onnx(const std::filesystem::path& path);

}  // namespace mantissa
