// Events that the observer of a run, a benchmark or a profile is told, and may stop it at.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace mantissa {

// kStarting: before the first step, when there is nothing to tell, but the run can be stopped.
enum class TrainEventKind {
  kStarting,
  kStep,
  kCheckpoint,
  kPretraining,
  kReestimating,  // the statistics of batch norms
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

// Returns false to stop after the current step. May be null.
using TrainObserver = std::function<bool(const TrainEvent&)>;

// Whether to go on; without an observer always.
bool tell(const TrainObserver& observer, const TrainEvent& event);

// Tells that `step` of `steps` of something are done.
bool tell_done(const TrainObserver& observer, TrainEventKind kind, int64_t step, int64_t steps);

// Tells a line of text, unless it is "".
void tell_message(const TrainObserver& observer, std::string text);

// Reports a failure that does not harm the run.
void tell_failure(const TrainObserver& observer, const char* what, const Status& done);

// kInterrupted if the observer does not let a run begin.
Status may_start(const TrainObserver& observer);

}  // namespace mantissa
