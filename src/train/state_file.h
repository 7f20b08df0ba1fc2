// A State as the tensors of a safetensors file.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "formats/safetensors.h"
#include "runtime/state.h"

namespace mantissa {

// All tensors of the state, in the layout's order.
Status write_state(const std::filesystem::path& path,
                   const std::map<std::string, std::string>& metadata, const State& state);

// Copies the file's tensors into the state. All of them must be there, with the layout's types and
// shapes and mantissas in range, and no others; else an error that names the file and the tensor,
// and the state is unchanged.
Status read_state(const std::filesystem::path& path, const SafetensorsFile& file, State& state);

}  // namespace mantissa
