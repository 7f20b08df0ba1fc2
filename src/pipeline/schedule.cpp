#include "pipeline/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "pipeline/names.h"
#include "pipeline/split_flush.h"

namespace mantissa::pipeline {
namespace {

constexpr std::array<std::string_view, 4> kModes = {"flush", "async", "stash", "2bw"};
constexpr std::array<std::string_view, 3> kForms = {"gpipe", "1f1b", "split"};
constexpr std::array<std::string_view, 2> kWindows = {"lean", "full"};

int window_of(const Options& options, int stage) {
  const int behind = options.stages - stage;  // stages from this one on
  if (options.mode == Mode::kFlush) {
    switch (options.form) {
      case FlushForm::kGPipe:
        return options.accumulate;
      case FlushForm::k1F1B:
        return std::min(behind, options.accumulate);
      case FlushForm::kSplit:
        return std::min(2 * options.stages - 1, options.accumulate);
    }
  }
  const int window = options.windows == Windows::kLean ? behind : 2 * behind - 1;
  return std::min(window, options.micro_batches());
}

// `window` forward passes; then a backward pass, and a forward pass in its place.
std::vector<Cell> alternating(int first, int count, int window, int accumulate) {
  std::vector<Cell> cells;
  cells.reserve(3 * static_cast<size_t>(count) + static_cast<size_t>(count / accumulate));
  const int end = first + count;
  for (int i = first; i < first + window; ++i) cells.push_back({Work::kForward, i});
  for (int i = first; i < end; ++i) {
    cells.push_back({Work::kGradInput, i});
    cells.push_back({Work::kGradWeights, i});
    if ((i + 1) % accumulate == 0) cells.push_back({Work::kUpdate, i / accumulate});
    if (i + window < end) cells.push_back({Work::kForward, i + window});
  }
  return cells;
}

std::vector<Cell> stage_order(const Options& options, int window) {
  if (options.mode != Mode::kFlush) {
    return alternating(0, options.micro_batches(), window, options.accumulate);
  }
  std::vector<Cell> cells;
  for (int update = 0; update < options.updates; ++update) {
    const std::vector<Cell> step =
        alternating(update * options.accumulate, options.accumulate, window, options.accumulate);
    cells.insert(cells.end(), step.begin(), step.end());
  }
  return cells;
}

Status check(const Options& options) {
  if (options.stages < 1 || options.stages > kMostStages) {
    return invalid_input("a pipeline has 1 to " + std::to_string(kMostStages) + " stages, not " +
                         std::to_string(options.stages));
  }
  if (options.accumulate < 1 || options.updates < 1) {
    return invalid_input("an update has at least one micro-batch, and a pipeline one update");
  }
  const int64_t micro_batches = int64_t{options.accumulate} * options.updates;
  if (micro_batches > kMostCells / (4 * int64_t{options.stages})) {
    return invalid_input("a schedule of " + std::to_string(options.stages) + " stages and " +
                         std::to_string(micro_batches) + " micro-batches is too long");
  }
  const int window = window_of(options, 0);
  if (options.mode == Mode::k2bw && options.accumulate < window - 1) {
    return invalid_input("2bw holds two versions of the weights: with " +
                         std::to_string(options.stages) + " stages and " + std::to_string(window) +
                         " micro-batches in flight an update needs at least " +
                         std::to_string(window - 1) + " micro-batches, not " +
                         std::to_string(options.accumulate) + " (stash has no such limit)");
  }
  return {};
}

int versions_of(const Options& options, int window) {
  const bool is_async = options.mode == Mode::kAsync;
  return std::max(1, weight_copies(options, window) + (is_async ? 1 : 0));
}

}  // namespace

std::string_view mode_name(Mode mode) { return kModes[static_cast<size_t>(mode)]; }

Result<Mode> parse_mode(std::string_view text) {
  MANTISSA_ASSIGN(const size_t index, find_name(text, kModes));
  return static_cast<Mode>(index);
}

std::string_view windows_name(Windows windows) { return kWindows[static_cast<size_t>(windows)]; }

Result<Windows> parse_windows(std::string_view text) {
  MANTISSA_ASSIGN(const size_t index, find_name(text, kWindows));
  return static_cast<Windows>(index);
}

std::string_view flush_form_name(FlushForm form) { return kForms[static_cast<size_t>(form)]; }

Result<FlushForm> parse_flush_form(std::string_view text) {
  MANTISSA_ASSIGN(const size_t index, find_name(text, kForms));
  return static_cast<FlushForm>(index);
}

Result<Schedule> make_schedule(const Options& options) {
  MANTISSA_RETURN_IF_ERROR(check(options));
  Schedule schedule = {.options = options, .windows = {}, .stages = {}, .versions = {}};
  for (int s = 0; s < options.stages; ++s) {
    schedule.windows.push_back(window_of(options, s));
    schedule.versions.push_back(versions_of(options, schedule.windows.back()));
  }
  if (options.mode == Mode::kFlush && options.form == FlushForm::kSplit) {
    schedule.stages = split_flush(options, schedule.windows[0]);
    return schedule;
  }
  for (const int window : schedule.windows) schedule.stages.push_back(stage_order(options, window));
  return schedule;
}

std::vector<int> staleness(std::span<const Cell> stage) {
  std::vector<int> at_forward, missed;
  int updates = 0;
  for (const Cell& cell : stage) {
    const auto index = static_cast<size_t>(cell.index);
    switch (cell.work) {
      case Work::kForward:
        at_forward.resize(std::max(at_forward.size(), index + 1));
        at_forward[index] = updates;
        break;
      case Work::kGradWeights:
        missed.resize(std::max(missed.size(), index + 1));
        missed[index] = updates - at_forward[index];
        break;
      case Work::kUpdate:
        ++updates;
        break;
      case Work::kGradInput:
        break;
    }
  }
  return missed;
}

int most_missed_updates(const Options& options, int window) {
  if (options.mode == Mode::kFlush) return 0;
  return (window - 1 + options.accumulate - 1) / options.accumulate;
}

double stage_rate(const Options& options, int window, double rate, int64_t step) {
  const int64_t steps = options.stage_warmup;
  const int missed = most_missed_updates(options, window);
  if (missed <= 1 || step >= steps) return rate;
  if (step == 0) return rate / missed;
  constexpr int kBits = 40;  // of the power, each a root of the root before
  double root = missed, divisor = 1;
  for (int64_t bit = 0, rest = steps - step; bit < kBits && rest > 0; ++bit) {
    root = std::sqrt(root);
    rest *= 2;
    if (rest < steps) continue;
    divisor *= root;
    rest -= steps;
  }
  return rate / divisor;
}

int weight_copies(const Options& options, int window) {
  if (window == 1) return 0;
  switch (options.mode) {
    case Mode::kFlush:
      break;
    case Mode::kAsync:
      return options.predicts_weights ? 1 : 0;
    case Mode::kStash:
      return window;
    case Mode::k2bw:
      return 2;
  }
  return 0;
}

int peak_in_flight(std::span<const Cell> stage) {
  int now = 0, peak = 0;
  for (const Cell& cell : stage) {
    if (cell.work == Work::kForward) peak = std::max(peak, ++now);
    if (cell.work == Work::kGradWeights) --now;
  }
  return peak;
}

}  // namespace mantissa::pipeline
