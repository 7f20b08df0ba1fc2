// The frozen network of a run. Between steps it is made at the front of the run's arena, and runs
// in the rest of the arena.
#pragma once

#include <string>

#include "base/result.h"
#include "data/datasets/dataset.h"
#include "infer/frozen_network.h"
#include "infer/tasks/task.h"
#include "run/plan/run_data.h"
#include "run/plan/run_plan.h"

namespace mantissa {

// The parts of a run that this needs, without the state of its training.
struct RunInference {
  const RunConfig& config;
  const RunPlan& plan;
  const RunData& data;
  const Machine& machine;  // with the run's whole arena
};

// The purpose of a run's network.
Result<Task> run_task(const RunConfig& config, const RunPlan& plan, const RunData& data,
                      std::vector<double> thresholds = {});

// Freezes the network with its weights in `state`. It is there until the next step is taken.
Result<FrozenNetwork> freeze_run(const RunInference& run, State& state);

// The task's score on the validation examples, for the network frozen in its present state.
Result<Score> validate_run(const RunInference& run, const Task& task, State& state,
                           const EvaluationObserver& observer);

// The thresholds of the frozen network as the settings say: chosen on the validation examples, a
// probability for all, or none.
Result<std::vector<double>> run_thresholds(const RunInference& run, const Task& task,
                                           FrozenNetwork& frozen,
                                           const EvaluationObserver& observer);

// The task's report on the test examples.
Result<Task::Report> test_run(const RunInference& run, const Task& task, FrozenNetwork& frozen,
                              const EvaluationObserver& observer);

}  // namespace mantissa
