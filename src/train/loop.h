// The training loop: steps and epochs, learning rates, checkpoints, validation, early stop, logs.
// It knows batches and a task's scores, and nothing about the kind of examples.
#pragma once

#include <functional>

#include "base/result.h"
#include "data/batches/batch.h"
#include "infer/programs.h"
#include "infer/tasks/task.h"
#include "run/checkpoint.h"
#include "run/plan/run_plan.h"
#include "run/progress.h"
#include "run/settings/run_config.h"
#include "run/step_times.h"

namespace mantissa {

// The parts that the loop works with; all outlive it.
struct LoopParts {
  const RunConfig& config;
  const RunPlan& plan;
  const Task& task;
  const TrainObserver& observer;
  Programs& programs;  // with the training program, over the state
  // Measures the held-back examples with the present weights. Called if the plan has any.
  std::function<Result<Score>(const EvaluationObserver&)> validate;
};

// The state of the loop: everything that it changes.
struct LoopState {
  State& state;
  CheckpointInfo& info;
  StepTimes& times;
};

// Whether no steps are left: all are taken, or the run stops early.
bool is_done(const RunConfig& config, const RunPlan& plan, const CheckpointInfo& info);

// Takes the steps that are left, on batches from the next step on. kInterrupted if the observer
// stopped it; a checkpoint has then been written.
Status run_loop(const LoopParts& parts, LoopState at, BatchSource& batches);

}  // namespace mantissa
