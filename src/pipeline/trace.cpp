#include "pipeline/trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace mantissa::pipeline {
namespace {

constexpr size_t kWorks = 4;

// Pieces of work of one kind.
struct Sum {
  int64_t time = 0, count = 0;
  double mean() const {
    return count == 0 ? 0 : static_cast<double>(time) / static_cast<double>(count);
  }
};

std::array<Sum, kWorks> sums_from(const std::vector<TracedCell>& cells, int64_t first_step) {
  std::array<Sum, kWorks> sums;
  for (const TracedCell& cell : cells) {
    if (cell.step < first_step) continue;
    Sum& sum = sums[static_cast<size_t>(cell.work)];
    sum.time += cell.end_ns - cell.start_ns;
    ++sum.count;
  }
  return sums;
}

// The first and the last step of all stages.
std::pair<int64_t, int64_t> steps_of(const Trace& trace) {
  std::pair<int64_t, int64_t> steps = {INT64_MAX, 0};
  for (const auto& cells : trace.stages) {
    for (const TracedCell& cell : cells) {
      steps = {std::min(steps.first, cell.step), std::max(steps.second, cell.step)};
    }
  }
  return steps;
}

// Checks that the pieces of a trace are those of its steps: it may be of another program.
bool is_whole(const Trace& trace, std::pair<int64_t, int64_t> steps) {
  const int64_t count = steps.second - steps.first + 1;
  const int accumulate = trace.options.accumulate;
  if (count < 1 || count > kMostTracedCells / accumulate) return false;
  for (const auto& cells : trace.stages) {
    for (const TracedCell& cell : cells) {
      if (cell.work == Work::kUpdate) continue;
      if (cell.micro_batch < 1 || cell.micro_batch > accumulate) return false;
    }
  }
  return true;
}

// A step without such a piece has 0.
std::array<PieceTimes, kWorks> pieces_of(const std::vector<TracedCell>& cells, int accumulate,
                                         std::pair<int64_t, int64_t> steps) {
  const auto count = static_cast<size_t>(steps.second - steps.first + 1);
  std::array<PieceTimes, kWorks> pieces;
  for (const TracedCell& cell : cells) {
    const bool is_update = cell.work == Work::kUpdate;
    const auto of_step = static_cast<size_t>(is_update ? 1 : accumulate);
    PieceTimes& piece = pieces[static_cast<size_t>(cell.work)];
    piece.times.resize(count * of_step);
    piece.repeats_from = count > 1 ? of_step : 0;
    piece.times[static_cast<size_t>(cell.step - steps.first) * of_step +
                (is_update ? 0 : cell.micro_batch - 1)] =
        static_cast<double>(cell.end_ns - cell.start_ns);
  }
  return pieces;
}

}  // namespace

int64_t traced_cells(const Options& options, int64_t steps) {
  const int64_t of_micro_batch = options.splits_backward() ? 3 : 2;
  return steps * options.stages * (options.accumulate * of_micro_batch + 1);
}

Trace simulated_trace(const Schedule& schedule, const Simulation& simulation, int64_t steps) {
  const int accumulate = schedule.options.accumulate;
  Trace trace = {.options = schedule.options, .names = {}, .stages = {}};
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    trace.names.push_back("stage " + std::to_string(s + 1));
    std::vector<TracedCell>& cells = trace.stages.emplace_back();
    for (size_t i = 0; i < schedule.stages[s].size(); ++i) {
      const Cell& cell = schedule.stages[s][i];
      const Interval& interval = simulation.stages[s].intervals[i];
      const bool is_update = cell.work == Work::kUpdate;
      const int update = is_update ? cell.index : cell.index / accumulate;
      if (update >= steps || interval.end <= interval.start) continue;
      cells.push_back({.work = cell.work,
                       .step = update + 1,
                       .micro_batch = is_update ? 0 : cell.index % accumulate + 1,
                       .start_ns = std::llround(interval.start),
                       .end_ns = std::llround(interval.end)});
    }
  }
  return trace;
}

int64_t traced_steps(const Trace& trace) {
  const auto [first, last] = steps_of(trace);
  return last - first + 1;
}

Result<std::vector<StageTimes>> measured_times(const Trace& trace) {
  const auto [first, last] = steps_of(trace);
  if (!is_whole(trace, {first, last})) {
    return invalid_input("the steps and micro-batches of the trace are not those of a run");
  }
  std::vector<StageTimes> times;
  for (size_t s = 0; s < trace.stages.size(); ++s) {
    const auto sums = sums_from(trace.stages[s], last > first ? first + 1 : first);
    if (sums[0].count == 0) {
      return invalid_input("stage " + std::to_string(s + 1) + " of the trace has no forward pass");
    }
    times.push_back(
        {.forward = sums[0].mean(),
         .grad_input = sums[1].mean(),
         .grad_weights = sums[2].mean(),
         .update = sums[3].mean(),
         .fused = !trace.options.splits_backward(),
         .pieces = pieces_of(trace.stages[s], trace.options.accumulate, {first, last})});
  }
  return times;
}

std::vector<double> idle_of(const Trace& trace) {
  int64_t start = INT64_MAX, end = 0;
  for (const auto& cells : trace.stages) {
    for (const TracedCell& cell : cells) {
      start = std::min(start, cell.start_ns);
      end = std::max(end, cell.end_ns);
    }
  }
  std::vector<double> idle;
  for (const auto& cells : trace.stages) {
    int64_t busy = 0;
    for (const TracedCell& cell : cells) busy += cell.end_ns - cell.start_ns;
    idle.push_back(end <= start ? 0
                                : 1 - static_cast<double>(busy) / static_cast<double>(end - start));
  }
  return idle;
}

}  // namespace mantissa::pipeline
