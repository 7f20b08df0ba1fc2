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
  kNone,     // everything is kept, and computed once
  kAll,      // the smallest peak that is found
  kLiteral,  // Recompute's own rule: what is computed faster than loaded is not kept
};

// How kAuto and kAll find what they are after.
enum class Planner : uint8_t {
  kSearch,  // in a second or a few, for any network
  kExact,   // of values with proof, for small ones (exact_retention.h); of gradients as kSearch
};

struct RecomputeOptions {
  RecomputeMode mode = RecomputeMode::kAuto;
  Planner planner = Planner::kSearch;
  // kAuto: the most that the arena takes, and outside it each instruction that computes again;
  // 0: no limit.
  int64_t limit_bytes = 0;
  int64_t instruction_bytes = 0;
  int64_t least_arena_bytes = 0;  // which the arena has for other programs
  MachineProfile profile = {};
};

// The decision about a value of the forward pass, or the gradient of a parameter, and its
// grounds.
struct ValueDecision {
  std::string name;
  bool is_gradient = false;  // of the parameter `name`
  int64_t bytes = 0;
  // Size of the cache that it lies in when the backward pass comes back to it; INT64_MAX: memory;
  // 0: the backward pass does not read it.
  int64_t tier_bytes = 0;
  double keep_us = 0;      // estimated: writing it there and loading it
  double compute_us = 0;   // estimated: computing it again
  int recomputations = 0;  // in the program
  bool is_kept = true;
  const char* decision = "";  // retention_name, "computed by rows", "-" if it is not needed
  const char* reason = "";
};

struct TrainingProgram {
  Program program;
  std::vector<ValueDecision>
      decisions;  // values, in the order in which they are written; gradients
};

// Compiles a training program; `options.retention` is chosen as `recompute` says. Where the limit
// cannot be met the program is the one with the smallest arena that was found. Errors as compile,
// and the exact planner's.
Result<TrainingProgram> compile_training(const Graph& graph, ProgramOptions options,
                                         const PlanningContext& planning,
                                         const RecomputeOptions& recompute);

// A table of the decisions.
std::string to_string(const std::vector<ValueDecision>& decisions);

Result<RecomputeMode> parse_recompute_mode(std::string_view text);
std::string_view recompute_mode_name(RecomputeMode mode);
Result<Planner> parse_planner(std::string_view text);
std::string_view planner_name(Planner planner);

}  // namespace mantissa
