// A training program divided among stages so that it fits: limits of memory decide what each stage
// keeps for its backward pass.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "pipeline/schedule.h"
#include "plan/programs/program.h"
#include "plan/programs/state_layout.h"
#include "plan/retention/compile_training.h"
#include "plan/stages/stages.h"

namespace mantissa {

// The memory limits of stages: their arenas, and outside them the instructions that compute again.
struct StageLimits {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t all_bytes = kNone;        // all stages together
  std::vector<int64_t> bytes = {};  // each; empty: no limit
  int64_t instruction_bytes = 0;    // of an instruction that computes again, outside the arena,
  int64_t micro_batch_bytes = 0;    // and further for each micro-batch in flight
};

struct StagesProgram {
  Program program;
  PipelinePlan plan;
  std::vector<ValueDecision> decisions;  // stage after stage
};

// The bytes of a stage that count against the limits.
int64_t stage_takes(const Program& program, const StagePlan& stage, const StageLimits& limits);

// Divides the program that keeps everything, `kept`. Values are computed again as the mode says,
// each in the only stage that has it. If limits cannot be met, stages take the least memory that
// was found. `recompute` has the mode and the profile. Errors as plan_stages.
Result<StagesProgram> compile_stages(const Graph& graph, const Program& kept,
                                     const PlanningContext& planning,
                                     const RecomputeOptions& recompute, const StateLayout& layout,
                                     std::span<const int> stage_of,
                                     const pipeline::Schedule& schedule, const StageLimits& limits);

}  // namespace mantissa
