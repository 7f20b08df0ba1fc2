// An imported network in fp32, to be measured.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "numerics/format.h"
#include "onnx/import/import.h"
#include "runtime/state.h"

namespace mantissa {

inline constexpr Format kFloatFormat{.family = FormatFamily::kFloat};

// The network's parameters as a state in fp32. Those that the file lacks are drawn by the seed.
Result<State> float_state(const onnx::ImportedNetwork& imported, uint64_t seed);

}  // namespace mantissa
