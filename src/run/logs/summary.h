// summary.json: the results of a run (docs/run-folder.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "infer/tasks/task.h"
#include "run/checkpoint.h"
#include "run/plan/run_plan.h"
#include "run/step_times.h"

namespace mantissa {

// A run that has ended. Objects that it refers to outlive it.
struct RunSummary {
  const RunConfig& config;
  const RunPlan& plan;
  const CheckpointInfo& info;
  const StepTimes& times;
  // For each stage of a pipeline, if steps were taken.
  std::vector<double> idle = {};
  std::vector<pipeline::MissedUpdates> missed = {};
  std::vector<int64_t> bytes_sent = {};  // by process; empty: there is one
  const Score& test;                     // of the frozen network on the test examples
  int64_t train_examples = 0;            // without those held back
  int64_t peak_rss_bytes = 0;            // above the idle process
  std::string weights_sha256;            // of the training state that was frozen
  std::string state_sha256;
  std::string diverged;  // why (divergence.h), or ""
};

std::string to_json(const RunSummary& summary);

// The text of the summary in a run's folder, nothing if there is none. An error if it belongs to a
// run with another identity.
Result<std::optional<std::string>> read_summary(const std::filesystem::path& folder,
                                                const std::string& run_identity);

// The text of a summary's entry "diverged", or "".
std::string diverged_by(const std::string& summary_json);

}  // namespace mantissa
