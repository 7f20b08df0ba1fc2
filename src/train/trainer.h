// Training from configuration to frozen network: epochs, schedule, metrics, checkpoints, summary.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "train/run_config.h"

namespace mantissa {

// kStarting: before the first step, when there is nothing to tell, but the run can be stopped.
enum class TrainEventKind {
  kStarting,
  kStep,
  kCheckpoint,
  kPretraining,
  kValidating,
  kEvaluating,
  kMessage
};

struct TrainEvent {
  TrainEventKind kind = TrainEventKind::kStep;
  int64_t step = 0, steps = 0, epoch = 0, epochs = 0;
  double loss = 0, accuracy = 0, learning_rate = 0;
  double examples_per_second = 0, seconds_left = 0;
  std::string message;
};

// Returns false to stop after the current step.
using TrainObserver = std::function<bool(const TrainEvent&)>;

struct TrainingResult {
  std::string summary_json;
  std::string plan_text;
  bool already_finished = false;
};

// Runs or resumes training as configured. kInterrupted if the observer stopped it: a checkpoint has
// then been written, but for a run that had not begun, which leaves everything as it was. Errors
// leave what was saved as it is.
Result<TrainingResult> train(const RunConfig& config, const TrainObserver& observer);

}  // namespace mantissa
