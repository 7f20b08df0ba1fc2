// A State as the tensors of a safetensors file.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/arrays/safetensors.h"
#include "runtime/state.h"

namespace mantissa {

// All tensors of the state except those in `left_out`, in the layout's order.
std::vector<SafetensorsView> state_views(const State& state, std::span<const int> left_out = {});

// Writes all tensors of the state.
Status write_state(const std::filesystem::path& path,
                   const std::map<std::string, std::string>& metadata, const State& state);

// Copies the file's tensors into the state, except the ones in `left_out`, which stay unchanged.
// The file must have exactly the others, with the layout's types and shapes and mantissas in range.
// Otherwise an error names the file and the tensor, and the state is unchanged.
Status read_state(const std::filesystem::path& path, const SafetensorsFile& file, State& state,
                  std::span<const int> left_out = {});

}  // namespace mantissa
