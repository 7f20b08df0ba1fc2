// A training program that fits: what it keeps for the backward pass follows from a limit of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/machine_profile.h"
#include "plan/program.h"

namespace mantissa {

enum class RecomputeMode : uint8_t {
  kAuto,     // the fastest under the limit, by the model's times
  kNone,     // everything is kept
  kAll,      // the smallest peak that is found
  kLiteral,  // Recompute's own rule: what is computed faster than loaded is not kept
};

struct RecomputeOptions {
  RecomputeMode mode = RecomputeMode::kAuto;
  int64_t arena_limit_bytes = 0;  // kAuto: the largest arena; 0: none
  MachineProfile profile = {};
};

// Compiles a training program; `options.retention` is chosen as `recompute` says. Where the limit
// cannot be met the program is the one with the smallest arena that was found. Errors as compile.
Result<Program> compile_training(const Graph& graph, ProgramOptions options,
                                 const PlanningContext& planning,
                                 const RecomputeOptions& recompute);

Result<RecomputeMode> parse_recompute_mode(std::string_view text);
std::string_view recompute_mode_name(RecomputeMode mode);

}  // namespace mantissa
