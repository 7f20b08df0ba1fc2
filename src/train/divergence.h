// Whether a run that has ended learned, by its losses.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "ops/loss.h"
#include "train/metrics.h"
#include "train/run_config.h"

namespace mantissa {

// Steps at the end of a run whose loss tells what it came to: how it got there does not matter.
constexpr int64_t kJudgedSteps = 10;

// A mean loss of training steps, and of how many.
struct TrainingLoss {
  double mean = 0;
  int64_t steps = 0;
};

// Of at least the last `steps` steps, in whole lines of metrics.jsonl; of all in a shorter run.
TrainingLoss last_training_loss(std::span<const MetricsLine> lines, int64_t steps);

// The loss of always giving every class the same probability, or as squared error the best answer
// that does not look at the picture.
double guessing_loss(ops::LossKind loss, int64_t classes);

// Why a run counts as diverged, or "". Its training loss is absurd: cross-entropy above ten times
// that of guessing, or outputs that miss their targets by more than ten; or the test loss of its
// frozen network is more than ten times as high as even that. (A frozen network's running
// statistics lag behind its training in short runs, and test examples may be of another kind.)
// `training` of no steps is not judged.
std::string divergence(ops::LossKind loss, int64_t classes, const TrainingLoss& training,
                       double test_loss);

// The error of a run that diverged, for the reason that divergence() gave ("": none). What it
// learned is worthless, and no script should go on with it.
Status check_converged(const RunConfig& config, const std::string& diverged);

// A line if the training loss is no better than that of guessing; else "".
std::string learning_note(const RunConfig& config, int64_t classes, const TrainingLoss& training);

}  // namespace mantissa
