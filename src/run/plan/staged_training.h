// Training on several stages: its division, and its memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/partition.h"
#include "pipeline/schedule.h"
#include "plan/stages/stage_layers.h"
#include "plan/stages/stages.h"
#include "run/settings/run_config.h"

namespace mantissa {

struct RunPlan;

struct StagedTraining {
  pipeline::Options options;  // the number of updates is still open
  StageLayers layers;         // of the program that keeps everything
  pipeline::Division division;
  PipelinePlan plan;
  // The name of each layer that a stage may begin with, stage by stage.
  std::vector<std::vector<std::string>> layer_names() const;
  int threads = 1;             // of each stage
  int here = 1;                // stages of this process, from the first
  std::vector<int64_t> bytes;  // of each stage: arena, its part of the state, executors, and what
                               // is on its way to it
};

// Threads of each stage; all of them if there is one. Training programs are compiled for as
// many: kernels may need more memory on fewer threads.
int threads_of_stage(const RunConfig& config);

// Divides the plan's training program, which keeps everything, among the stages that the settings
// ask for.
Status divide_training(const RunConfig& config, RunPlan& plan);

// Compiles it anew if the settings ask for it: under the limit for each stage, and `arena_bytes`
// for the arenas of all. An error (kOverBudget) if a stage is above its limit.
Status fit_stages(const RunConfig& config, const PlanningContext& planning, int64_t arena_bytes,
                  RunPlan& plan);

// Memory for the counts of dynamic fixed point in a step.
int64_t decision_bytes(const Format& format, const Graph& graph);

// Memory for the trace that the settings ask for.
int64_t trace_bytes(const RunConfig& config, const StagedTraining& staged);

// Executors of all micro-batches in flight.
int64_t executor_bytes(const RunPlan& plan);

}  // namespace mantissa
