// A training program that fits: a limit of memory decides what it keeps for the backward pass.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/programs/program.h"
#include "plan/retention/machine_profile.h"
#include "plan/retention/value_decisions.h"

namespace mantissa {

enum class RecomputeMode : uint8_t {
  kAuto,     // the fastest under the limit, by the model's times
  kNone,     // everything is kept, and computed once
  kAll,      // the smallest peak that is found
  kLiteral,  // Recompute's own rule: a value that is computed faster than loaded is not kept
};

// How kAuto and kAll find their choice.
enum class Planner : uint8_t {
  kSearch,  // in a second or a few, for any network
  kExact,   // of values with proof, for small ones (exact_retention.h); of gradients as kSearch
};

struct RecomputeOptions {
  RecomputeMode mode = RecomputeMode::kAuto;
  Planner planner = Planner::kSearch;
  // kAuto: the most memory for the arena, and outside it for each instruction that computes again;
  // 0: no limit.
  int64_t limit_bytes = 0;
  int64_t instruction_bytes = 0;
  int64_t least_arena_bytes = 0;  // needed by other programs that share the arena
  MachineProfile profile = {};
};

struct TrainingProgram {
  Program program;
  std::vector<ValueDecision>
      decisions;  // values, in the order in which they are written; gradients
};

// Compiles a training program; `options.retention` is chosen as `recompute` says. If the limit
// cannot be met, the program is the one with the smallest arena that was found. Errors as compile,
// and the exact planner's.
Result<TrainingProgram> compile_training(const Graph& graph, ProgramOptions options,
                                         const PlanningContext& planning,
                                         const RecomputeOptions& recompute);

Result<RecomputeMode> parse_recompute_mode(std::string_view text);
std::string_view recompute_mode_name(RecomputeMode mode);
Result<Planner> parse_planner(std::string_view text);
std::string_view planner_name(Planner planner);

}  // namespace mantissa
