// Checkpoints: a run's whole state in one canonical safetensors file, written atomically.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/executor.h"
#include "runtime/state.h"

namespace mantissa {

// Sums of one of several outputs, whose examples all count.
struct OutputSums {
  int64_t correct = 0, loss_q24 = 0;  // in the unit of its loss
};

struct CheckpointInfo {
  int64_t step = 0;  // steps done
  std::string run_identity;
  // Sums since the last line of metrics.jsonl, so that lines do not depend on interruptions.
  int64_t window_steps = 0, window_correct = 0, window_loss_q24 = 0;
  int64_t window_saturated = 0, window_requantised = 0;
  // The sums of each output, if there are several. Other losses here are sums over all outputs, in
  // units of 2^-24.
  std::vector<OutputSums> window_outputs = {};
  // Since the first step.
  int64_t saturated = 0, requantised = 0, re_executions = 0, guard_violations = 0;
  int64_t norm_channels_left_out = 0;
  // The loss of this epoch's steps so far.
  int64_t epoch_loss_q24 = 0;
  // The epoch with the lowest loss (on the validation examples, if there are any): its last step, 0
  // if there is none yet. And how often and when the plateau schedule last reacted.
  int64_t best_step = 0, best_loss_q24 = 0, best_correct = 0;
  int64_t best_examples = 0;  // that best_loss_q24 is of: of tokens, those that count
  int64_t reductions = 0, reduced_step = 0;
};

// Counts a step that was done.
void add_step(const StepResult& result, CheckpointInfo& info);

// "checkpoint-00000469.safetensors" in `folder`.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);

// Whether a file with that name is a checkpoint, and the step of that checkpoint.
std::optional<int64_t> checkpoint_step(const std::string& file_name);

// Steps of the checkpoints in `folder`, ascending. An error if it cannot be listed.
Result<std::vector<int64_t>> list_checkpoints(const std::filesystem::path& folder);

// Writes one file.
Status write_checkpoint(const std::filesystem::path& path, const CheckpointInfo& info,
                        const State& state);

// Removes all but the newest two.
Status rotate_checkpoints(const std::filesystem::path& folder);

// Reads a checkpoint into a state of the same layout. Damaged files, other layouts and other run
// identities are errors that name the file; `state` is then unchanged.
Result<CheckpointInfo> load_checkpoint(const std::filesystem::path& path,
                                       const std::string& run_identity, State& state);

// The same for the newest checkpoint in `folder`; nothing if there is none. An error also says
// where the run would go on without that file.
Result<std::optional<CheckpointInfo>> load_newest_checkpoint(const std::filesystem::path& folder,
                                                             const std::string& run_identity,
                                                             State& state);

}  // namespace mantissa
