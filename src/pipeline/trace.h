// The cells of a pipeline's first steps with their times. Measured by the stages
// of a run, or computed by the simulator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/schedule.h"
#include "pipeline/simulate.h"

namespace mantissa::pipeline {

// A piece of work. Steps and micro-batches of a step count from 1; an update has no micro-batch.
struct TracedCell {
  Work work = Work::kForward;
  int64_t step = 1;
  int micro_batch = 0;
  int64_t start_ns = 0, end_ns = 0;
  bool operator==(const TracedCell&) const = default;
};

struct Trace {
  Options options;                              // except the number of updates
  std::vector<std::string> names;               // of the stages
  std::vector<std::vector<TracedCell>> stages;  // in the order of their work
};

// Updates of a stage between the forward pass of a micro-batch and the gradients of its weights.
struct MissedUpdates {
  int64_t micro_batches = 0;  // that were counted
  int64_t missed = 0;         // by all of them
  int64_t most = 0;           // by one
};

// Cells of a trace, in all stages.
constexpr int64_t kMostTracedCells = 100'000;

// The most cells that this many steps have, in all stages.
int64_t traced_cells(const Options& options, int64_t steps);

// The first steps of a simulation whose times are nanoseconds.
Trace simulated_trace(const Schedule& schedule, const Simulation& simulation, int64_t steps);

// The times of each stage's work, in nanoseconds. Means, without the first step if there are more;
// and the times of each piece, repeated from the second step on. Errors: a stage has no forward
// pass, or the pieces do not match a run's steps.
Result<std::vector<StageTimes>> measured_times(const Trace& trace);

// How many steps have cells in it.
int64_t traced_steps(const Trace& trace);

// The part of the traced time in which each stage waited, in [0, 1].
std::vector<double> idle_of(const Trace& trace);

}  // namespace mantissa::pipeline
