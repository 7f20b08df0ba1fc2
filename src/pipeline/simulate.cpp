#include "pipeline/simulate.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "base/random.h"

namespace mantissa::pipeline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Simulator {
 public:
  Simulator(const Schedule& schedule, std::span<const StageTimes> times,
            const Conditions& conditions)
      : schedule_(schedule),
        times_(times),
        conditions_(conditions),
        last_(static_cast<int>(schedule.stages.size()) - 1),
        next_(schedule.stages.size(), 0) {
    const auto micro_batches = static_cast<size_t>(schedule.options.micro_batches());
    for (size_t s = 0; s < schedule.stages.size(); ++s) {
      activations_.emplace_back(micro_batches, kNever);
      gradients_.emplace_back(micro_batches, kNever);
      results_.emplace_back().intervals.reserve(schedule.stages[s].size());
    }
  }

  // Stages go on as far as they can, and wake those that wait for them.
  Status run() {
    std::vector<int> awake;
    for (int s = last_; s >= 0; --s) awake.push_back(s);
    while (!awake.empty()) {
      const int s = awake.back();
      awake.pop_back();
      if (!go_on(s)) continue;
      if (s > 0) awake.push_back(s - 1);
      if (s < last_) awake.push_back(s + 1);
    }
    for (int s = 0; s <= last_; ++s) {
      if (next_[s] < schedule_.stages[s].size()) {
        return failed("the schedule waits for itself: stage " + std::to_string(s) + " at piece " +
                      std::to_string(next_[s]) + " of its work");
      }
    }
    return {};
  }

  std::vector<StageResult> take_results() { return std::move(results_); }

 private:
  // When the data of a cell are there.
  double arrival(int s, const Cell& cell) const {
    const auto index = static_cast<size_t>(cell.index);
    switch (cell.work) {
      case Work::kForward:
        return s == 0 ? 0 : activations_[s - 1][index] + conditions_.hop;
      case Work::kGradInput:
        return s == last_ ? activations_[s][index] : gradients_[s + 1][index] + conditions_.hop;
      case Work::kGradWeights:
      case Work::kUpdate:
        break;
    }
    return 0;
  }

  double duration(int s, const Cell& cell) const {
    double time = times_[s].of(cell);
    if (s == conditions_.straggler) time *= conditions_.straggler_factor;
    if (conditions_.jitter > 0) {
      const uint64_t bits =
          random_bits(conditions_.seed, RandomStream::kSynthetic, static_cast<uint32_t>(s),
                      uint64_t{4} * cell.index + static_cast<uint64_t>(cell.work));
      time *= 1 + conditions_.jitter * (static_cast<double>(bits >> 11) * 0x1p-52 - 1);
    }
    return time;
  }

  bool go_on(int s) {
    const std::vector<Cell>& cells = schedule_.stages[s];
    std::vector<Interval>& done = results_[s].intervals;
    const size_t before = next_[s];
    for (; next_[s] < cells.size(); ++next_[s]) {
      const Cell& cell = cells[next_[s]];
      const double arrived = arrival(s, cell);
      if (arrived == kNever) break;
      const double start = std::max(arrived, done.empty() ? 0 : done.back().end);
      const double end = start + duration(s, cell);
      done.push_back({start, end});
      const auto index = static_cast<size_t>(cell.index);
      if (cell.work == Work::kForward) activations_[s][index] = end;
      if (cell.work == (times_[s].fused ? Work::kGradWeights : Work::kGradInput)) {
        gradients_[s][index] = end;
      }
    }
    return next_[s] > before;
  }

  const Schedule& schedule_;
  std::span<const StageTimes> times_;
  const Conditions& conditions_;
  int last_;
  std::vector<size_t> next_;  // cell of each stage
  std::vector<std::vector<double>> activations_,
      gradients_;  // when stages have them, per micro-batch
  std::vector<StageResult> results_;
};

// The end of the first update, and the start of the last forward pass.
Interval filled_of(const std::vector<Cell>& cells, const std::vector<Interval>& intervals) {
  Interval filled;
  const auto update = std::ranges::find(cells, Work::kUpdate, &Cell::work);
  filled.start = intervals[static_cast<size_t>(update - cells.begin())].end;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].work == Work::kForward) filled.end = intervals[i].start;
  }
  return filled;
}

double busy_within(const std::vector<Interval>& intervals, const Interval& part) {
  double busy = 0;
  for (const Interval& interval : intervals) {
    busy += std::max(0.0, std::min(interval.end, part.end) - std::max(interval.start, part.start));
  }
  return busy;
}

int count_within(const std::vector<Cell>& cells, const std::vector<Interval>& intervals,
                 const Interval& part) {
  int count = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    count += cells[i].work == Work::kForward && intervals[i].start >= part.start &&
             intervals[i].start < part.end;
  }
  return count;
}

}  // namespace

Result<Simulation> simulate(const Schedule& schedule, std::span<const StageTimes> times,
                            const Conditions& conditions) {
  if (times.size() != schedule.stages.size()) {
    return invalid_input("times of " + std::to_string(times.size()) + " stages for " +
                         std::to_string(schedule.stages.size()));
  }
  Simulator simulator(schedule, times, conditions);
  MANTISSA_RETURN_IF_ERROR(simulator.run());
  Simulation result;
  result.stages = simulator.take_results();
  result.filled = {0, kNever};
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    const std::vector<Interval>& intervals = result.stages[s].intervals;
    const Interval filled = filled_of(schedule.stages[s], intervals);
    result.filled.start = std::max(result.filled.start, filled.start);
    result.filled.end = std::min(result.filled.end, filled.end);
    result.total = std::max(result.total, intervals.back().end);
  }
  if (result.filled.end <= result.filled.start) result.filled = {};
  const bool whole = result.filled.end == 0;
  const Interval part = whole ? Interval{0, result.total} : result.filled;
  const double length = part.end - part.start;
  for (StageResult& stage : result.stages) {
    stage.idle = length > 0 ? 1 - busy_within(stage.intervals, part) / length : 0;
    result.idle += stage.idle / static_cast<double>(result.stages.size());
  }
  const int count = count_within(schedule.stages[0], result.stages[0].intervals, part);
  result.micro_batches_per_time = length > 0 ? count / length : 0;
  return result;
}

}  // namespace mantissa::pipeline
