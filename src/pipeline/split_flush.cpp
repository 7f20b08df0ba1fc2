#include "pipeline/split_flush.h"

#include <algorithm>

namespace mantissa::pipeline {
namespace {

// Steps that the pipeline takes to forget that it was empty, and the one that is kept.
constexpr int kSteps = 3;

// All stages, one piece of work each per tick.
class Ticks {
 public:
  Ticks(int stages, int micro_batches, int window)
      : last_(stages - 1),
        in_step_(micro_batches),
        window_(window),
        done_(stages),
        cells_(stages) {}

  std::vector<std::vector<Cell>> last_step() {
    const int end = kSteps * in_step_;
    while (std::ranges::any_of(done_, [&](const Counts& c) { return c.weights < end; })) tick();
    for (auto& cells : cells_) cells.erase(cells.begin(), cells.end() - 3 * in_step_);
    return cells_;
  }

 private:
  // How many micro-batches have passed each piece of work.
  struct Counts {
    int forward = 0, input = 0, weights = 0;
  };

  // The next piece of work of stage s, if there is one.
  void work(int s) {
    Counts& done = done_[s];
    const int gradients = s == last_ ? done.forward : before_[s + 1].input;
    // Forward passes of the next step wait for the update, which follows the last grad_weights.
    const int step = std::min(done.weights / in_step_ + 1, kSteps);
    const int step_end = step * in_step_;
    const int arrived = s == 0 ? step_end : std::min(step_end, before_[s - 1].forward);
    if (done.input < gradients) {
      cells_[s].push_back({Work::kGradInput, done.input++ % in_step_});
    } else if (done.forward < arrived && done.forward - done.weights < window_) {
      cells_[s].push_back({Work::kForward, done.forward++ % in_step_});
    } else if (done.weights < done.input) {
      cells_[s].push_back({Work::kGradWeights, done.weights++ % in_step_});
    }
  }

  void tick() {
    before_ = done_;
    for (int s = 0; s <= last_; ++s) work(s);
  }

  int last_, in_step_, window_;
  std::vector<Counts> done_, before_;  // now, and before this tick
  std::vector<std::vector<Cell>> cells_;
};

}  // namespace

std::vector<std::vector<Cell>> split_flush(const Options& options, int window) {
  std::vector<std::vector<Cell>> orders;
  for (const auto& step : Ticks(options.stages, options.accumulate, window).last_step()) {
    std::vector<Cell> cells;
    for (int update = 0; update < options.updates; ++update) {
      for (const Cell& cell : step) {
        cells.push_back({cell.work, cell.index + update * options.accumulate});
      }
      cells.push_back({Work::kUpdate, update});
    }
    orders.push_back(std::move(cells));
  }
  return orders;
}

}  // namespace mantissa::pipeline
