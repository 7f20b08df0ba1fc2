// The time of a schedule: when each stage does each piece of its work, on stages and
// links of given speeds. Serves planning for machines that are not there.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "pipeline/schedule.h"

namespace mantissa::pipeline {

// Times of single pieces of one kind of work, by micro-batch or update. After the last one they
// repeat, starting at `repeats_from`.
struct PieceTimes {
  std::vector<double> times;
  size_t repeats_from = 0;  // below the number of times, if there are any

  double of(size_t index) const {
    const size_t count = times.size();
    if (index < count) return times[index];
    return times[repeats_from + (index - count) % (count - repeats_from)];
  }
};

// Times of one micro-batch at a stage, and of an update, in any one unit.
struct StageTimes {
  double forward = 1, grad_input = 1, grad_weights = 1, update = 0;
  // Its gradient is passed on only after grad_weights: the backward pass is one piece of work.
  bool fused = false;
  // By Work, in place of the times above; empty: each piece takes these.
  std::array<PieceTimes, 4> pieces = {};

  double of(const Cell& cell) const {
    const auto work = static_cast<size_t>(cell.work);
    return pieces[work].times.empty() ? std::array{forward, grad_input, grad_weights, update}[work]
                                      : pieces[work].of(static_cast<size_t>(cell.index));
  }
};

struct Conditions {
  double hop = 0;               // from one stage to the next, in the same unit
  double jitter = 0;            // each piece takes 1 ± jitter of its time, uniformly
  int straggler = -1;           // a stage that is slower
  double straggler_factor = 1;  // its times are multiplied by this
  uint64_t seed = 0;            // of the jitter
};

struct Interval {
  double start = 0, end = 0;
};

struct StageResult {
  std::vector<Interval> intervals;  // of its cells
  double idle = 0;                  // of the filled time, in [0, 1]
};

struct Simulation {
  std::vector<StageResult> stages;
  double total = 0;  // until the last update
  // The filled part: from the time at which every stage has made an update until the first one
  // begins its last forward pass. Empty if the run is too short for it.
  Interval filled;
  double idle = 0;                    // mean of the stages
  double micro_batches_per_time = 0;  // in the filled part; in the whole if that is empty
};

// `times` has one element for each stage. Fails if a schedule deadlocks.
Result<Simulation> simulate(const Schedule& schedule, std::span<const StageTimes> times,
                            const Conditions& conditions = {});

}  // namespace mantissa::pipeline
