// Whether a run that has ended learned, by its losses.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "infer/tasks/task.h"
#include "run/logs/metrics.h"
#include "run/settings/run_config.h"

namespace mantissa {

// Steps at the end of a run whose loss counts as its result: the way there does not matter.
constexpr int64_t kJudgedSteps = 10;

// A mean loss of training steps, and of how many.
struct TrainingLoss {
  double mean = 0;
  int64_t steps = 0;
};

// The mean of at least the last `steps` steps, in whole lines of metrics.jsonl; of all steps in a
// shorter run.
TrainingLoss last_training_loss(std::span<const MetricsLine> lines, int64_t steps);

// Why a run counts as diverged, or "". Either its training loss is absurd, above ten times
// Task::high_loss: cross-entropy above ten times the loss of guessing, or outputs that miss their
// targets by more than ten; or the test loss of its frozen network is above ten times even that
// limit. (A frozen network's running statistics lag behind its training in short runs, and test
// examples may be of another kind.) `training` of no steps is not judged.
std::string divergence(const Task& task, const TrainingLoss& training, double test_loss);

// The error of a run that diverged, for the reason from divergence() ("": none). The weights are
// worthless, and no script should go on with them.
Status check_converged(const RunConfig& config, const std::string& diverged);

// A note if the training loss is no better than guessing; else "".
std::string learning_note(const RunConfig& config, const Task& task, const TrainingLoss& training);

}  // namespace mantissa
