// The order in which the stages of a pipeline work, as data. It follows from counts alone and never
// from time, so that a run repeats bit for bit. Source: AsyncPipeline [0029]-[0053]; METHODS
// section 5.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa::pipeline {

// The version of the weights that a micro-batch meets.
enum class Mode : uint8_t {
  kFlush,  // of the last update, at every stage: the bits of one process
  kAsync,  // the current ones when it comes: one version (AsyncPipeline)
  kStash,  // the same in forward and backward: a version for each micro-batch in flight
  k2bw,    // as kStash, with two versions, and updates rare enough for that
};
std::string_view mode_name(Mode mode);
Result<Mode> parse_mode(std::string_view text);

// The order of the work of a step in kFlush. All three give the same bits.
enum class FlushForm : uint8_t {
  kGPipe,  // all forward passes, then all backward passes
  k1F1B,   // a backward pass as soon as there is one
  kSplit,  // grad_weights apart: they fill the time in which a stage would wait
};
std::string_view flush_form_name(FlushForm form);
Result<FlushForm> parse_flush_form(std::string_view text);

// How many micro-batches a stage may have in flight, from the start of their forward pass to the
// end of their grad_weights.
enum class Windows : uint8_t {
  kLean,  // P − s, counting stages from 0: enough if transfers take no time
  kFull,  // 2(P − s) − 1: the document's figure 6
};

std::string_view windows_name(Windows windows);
Result<Windows> parse_windows(std::string_view text);

enum class Work : uint8_t { kForward, kGradInput, kGradWeights, kUpdate };

struct Cell {
  Work work = Work::kForward;
  int index = 0;  // of the micro-batch, from 0; for an update: of the update
  bool operator==(const Cell&) const = default;
};

struct Options {
  Mode mode = Mode::kFlush;
  FlushForm form = FlushForm::kSplit;  // of kFlush
  Windows windows = Windows::kLean;    // of the other modes
  int stages = 1;
  int accumulate = 1;  // micro-batches of an update
  int updates = 1;     // between two drains of the pipeline
  // Not in kFlush. Forward passes use weights predicted for the update of their micro-batch, in
  // place of the current ones.
  bool predicts_weights = false;
  // Not in kFlush: steps in which the rates of stages rise to the run's rate; 0: no rise.
  int64_t stage_warmup = 0;
  bool operator==(const Options&) const = default;
  int micro_batches() const { return accumulate * updates; }
  // Whether grad_weights are apart from grad_input; else they follow it at once, before the
  // gradient goes on.
  bool splits_backward() const { return mode == Mode::kFlush && form == FlushForm::kSplit; }
};

struct Schedule {
  Options options;
  std::vector<int> windows;               // per stage
  std::vector<std::vector<Cell>> stages;  // each stage's cells, in its order
  // Versions of its weights that a stage holds at once, predicted ones included.
  std::vector<int> versions;
};

constexpr int kMostStages = 1000;
constexpr int64_t kMostCells = int64_t{1} << 26;

// Errors name the impossible option, and the nearest possible one.
Result<Schedule> make_schedule(const Options& options);

// The staleness of micro-batches: updates of its stage between its forward pass and its
// grad_weights. Per micro-batch. In kStash and k2bw weights are as old, but the same in both
// passes.
std::vector<int> staleness(std::span<const Cell> stage);

// The most missed updates, by the formula: ⌈(window − 1) / accumulate⌉, and none in kFlush.
int most_missed_updates(const Options& options, int window);

// The learning rate of a stage in step k (from 0) of the run: rate / max(t, 1)^(1 - min(k / K, 1)).
// t is the most updates that its micro-batches miss, K = stage_warmup. Powers are products of
// square roots, for the same bits on all machines.
double stage_rate(const Options& options, int window, double rate, int64_t step);

// Copies of its weights that a stage holds, besides the current weights.
int weight_copies(const Options& options, int window);

// Micro-batches in flight at once, at most.
int peak_in_flight(std::span<const Cell> stage);

}  // namespace mantissa::pipeline
