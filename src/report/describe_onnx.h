// The description of an ONNX file, for `mantissa info net.onnx`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

// Kind "ONNX network": producer, operator sets, inputs, outputs, layers with shapes, parameters and
// multiply-adds, for one example or inputs of `shapes`; and the unsupported nodes, with reasons.
// Errors: errors of onnx/files/reader.h, a shape for no input.
Result<nlohmann::ordered_json> describe_onnx(
    const std::filesystem::path& path,
    const std::map<std::string, std::vector<int64_t>>& shapes = {});

}  // namespace mantissa
