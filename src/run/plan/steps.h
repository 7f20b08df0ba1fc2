// The loop over training steps. All training goes through it: a run, fit(), pretraining in float,
// re-estimated statistics, benchmarks. The observer decides about everything between steps.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "data/batches/batch.h"
#include "graph/op.h"
#include "infer/programs.h"
#include "run/learning_rate.h"
#include "run/settings/run_config.h"

namespace mantissa {

// The scalars of a step, without learning rate and step number.
StepScalars step_scalars(const RunConfig& config);

// The learning rate over the steps of a run; `reductions` as Schedule has them.
Schedule run_schedule(const RunConfig& config, int64_t total_steps, int64_t reductions);

// The numbers of step `step`, counted from 0, of a run of total_steps, with its
// learning rate.
StepScalars scalars_at(const RunConfig& config, int64_t total_steps, int64_t reductions,
                       int64_t step);

// A step that was taken.
struct TakenStep {
  int64_t step = 0;
  double learning_rate = 0;
  StepResult result;
  double seconds = 0;          // all of it
  double waiting_seconds = 0;  // of these, until its batches were there
};

// All objects that it refers to outlive the loop.
struct StepLoop {
  Programs& programs;
  BatchSource& batches;
  std::function<StepScalars(int64_t step)> scalars;
  // Called before each step. May be null.
  std::function<Status(int64_t step)> before = nullptr;
  // Called after it; whether to go on.
  std::function<Result<bool>(const TakenStep&)> after;
};

// Takes the steps from `begin` on, until `end` or until `after` says so. Stages are fed the batches
// of later steps while they work (Programs::wants_batch).
Status take_steps(const StepLoop& loop, int64_t begin, int64_t end);

}  // namespace mantissa
