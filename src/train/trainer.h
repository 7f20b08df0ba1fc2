// Training from configuration to frozen network: epochs, schedule, metrics, checkpoints, summary.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "plan/program.h"
#include "train/frozen_network.h"
#include "train/memory_plan.h"
#include "train/run_config.h"

namespace mantissa {

// What a run is compiled to, before any data but headers is read.
// Step times that the median is taken from: the last so many.
constexpr int64_t kTimedSteps = 4096;

struct RunPlan {
  Graph graph;
  StateLayout layout;
  Program training;
  Program calibration;
  EvaluationPrograms evaluation;  // of the frozen network, on the test split
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  int64_t calibration_examples = 0;
  MemoryPlan memory;
  int64_t arena_bytes() const;
};

// Compiles a run for a data set. Channel means are left at 0: they change no plan.
Result<RunPlan> plan_run(const RunConfig& config, const DatasetInfo& data);

enum class TrainEventKind { kStep, kCheckpoint, kEvaluating, kMessage };

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
// then been written. Errors leave what was saved as it is.
Result<TrainingResult> train(const RunConfig& config, const TrainObserver& observer);

}  // namespace mantissa
