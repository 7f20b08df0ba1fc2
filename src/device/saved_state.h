// The states that exported programs save (training/saved.h), read.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "numerics/format.h"
#include "runtime/state.h"

namespace mantissa::device {

inline constexpr std::string_view kSavedMagic = "MANTISSA";

// Sets `state`, of the program's layout, and returns the steps that were done. Parameters that are
// not trained are not in the block, and stay. Errors: damaged
// blocks, and those of another program; `state` is then unchanged.
Result<int64_t> read_saved_state(std::span<const std::byte> block, const Graph& graph,
                                 const Format& format, State& state);

}  // namespace mantissa::device
