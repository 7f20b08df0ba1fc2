// Describes a run's folder or a safetensors file, for `mantissa info PATH`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

// A folder of a run: kind "run", with its settings, results, files, and the tensors of its newest
// checkpoint (or of its frozen network). A safetensors file: kind "checkpoint", "frozen network" or
// "safetensors", with its metadata, whether its checksum holds, and its tensors. A file *.onnx:
// describe_onnx.h. Errors name the file: none, damaged.
// `shapes`: sizes of an ONNX network's inputs, by name.
Result<nlohmann::ordered_json> describe(
    const std::filesystem::path& path,
    const std::map<std::string, std::vector<int64_t>>& shapes = {});

}  // namespace mantissa
