// Translates the library's own results and events into the public interface.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/result.h"
#include "mantissa/mantissa.h"
#include "run/progress.h"

namespace mantissa {

inline Exit exit_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return Exit::kInvalidInput;
    case ErrorCode::kOverBudget:
      return Exit::kOverBudget;
    case ErrorCode::kInterrupted:
      return Exit::kInterrupted;
    case ErrorCode::kFailed:
      break;
  }
  return Exit::kFailed;
}

inline Failure failure_of(const Error& error) { return {exit_of(error.code), error.message}; }

inline Outcome<Done> outcome_of(const Status& status) {
  if (!status.ok()) return failure_of(status.error());
  return Done{};
}

// An observer that is told how many of `all` are done.
inline std::function<bool(int64_t)> counting(const Observer& observer, Progress::Kind kind,
                                             int64_t all) {
  return [&observer, kind, all](int64_t done) {
    if (observer == nullptr) return true;
    Progress progress;
    progress.kind = kind;
    progress.step = done;
    progress.steps = all;
    return observer(progress);
  };
}

inline Progress progress_of(const TrainEvent& event) {
  Progress progress;
  switch (event.kind) {
    case TrainEventKind::kStarting:
      progress.kind = Progress::Kind::kStarting;
      break;
    case TrainEventKind::kStep:
      progress.kind = Progress::Kind::kStep;
      break;
    case TrainEventKind::kCheckpoint:
      progress.kind = Progress::Kind::kCheckpoint;
      break;
    case TrainEventKind::kPretraining:
      progress.kind = Progress::Kind::kPretraining;
      break;
    case TrainEventKind::kReestimating:
      progress.kind = Progress::Kind::kReestimating;
      break;
    case TrainEventKind::kValidating:
      progress.kind = Progress::Kind::kValidating;
      break;
    case TrainEventKind::kEvaluating:
      progress.kind = Progress::Kind::kEvaluating;
      break;
    case TrainEventKind::kMessage:
      progress.kind = Progress::Kind::kMessage;
      break;
  }
  progress.step = event.step;
  progress.steps = event.steps;
  progress.epoch = event.epoch;
  progress.epochs = event.epochs;
  progress.loss = event.loss;
  progress.accuracy = event.accuracy;
  progress.learning_rate = event.learning_rate;
  progress.examples_per_second = event.examples_per_second;
  progress.seconds_left = event.seconds_left;
  progress.message = event.message;
  return progress;
}

// An observer of the library that tells `observer`, which must outlive it; null for null.
inline TrainObserver forwarded(const Observer& observer) {
  if (observer == nullptr) return nullptr;
  return [&observer](const TrainEvent& event) { return observer(progress_of(event)); };
}

}  // namespace mantissa
