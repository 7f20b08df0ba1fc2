// The log files of a run in progress: metrics.jsonl, TensorBoard events, hashes.jsonl and
// tensors.jsonl (docs/run-folder.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/tensorboard.h"
#include "infer/tasks/task.h"
#include "run/checkpoint.h"
#include "run/logs/hash_log.h"
#include "run/logs/json_lines.h"
#include "run/logs/metrics.h"
#include "run/logs/tensor_log.h"
#include "run/plan/run_plan.h"
#include "runtime/executor.h"
#include "runtime/observation.h"

namespace mantissa {

// Steps per line of metrics.jsonl and tensors.jsonl.
constexpr int64_t kReportSteps = 50;

// A step that has ended: results that CheckpointInfo does not have.
struct FinishedStep {
  StepResult result;
  double learning_rate = 0;
  std::optional<Score> validation;                  // of held-back examples, if measured
  std::span<const TensorObservation> tensors = {};  // if it was observed
  bool is_last = false;                             // of the run
  bool at_rest = true;                              // the state is exactly the one after this step
};

class RunLogs {
 public:
  // Opens the files that the settings ask for, cut back to info.step. Settings and plan outlive the
  // logs.
  static Result<RunLogs> open(const RunConfig& config, const RunPlan& plan,
                              const CheckpointInfo& info, const State& state);

  // The executor fills it in the step that ends as number `step`. nullptr if nothing of it is
  // written. Valid until the logs are moved.
  Observations* observations(int64_t step);
  // Whether it is anything.
  bool observes(int64_t step) const;

  // Writes the lines that are due after step number info.step. `info` already has the sums of that
  // step, and the step was observed if observations() says so. If a line of metrics.jsonl is
  // written, it is returned, and its sums start again from zero.
  Result<std::optional<MetricsLine>> write(const FinishedStep& step, const State& state,
                                           CheckpointInfo& info);

  // The parts of the files that are missing, a line each.
  std::vector<std::string> gaps() const;

  // When it returns, all lines written survive a loss of power.
  Status flush();

  // Time outside training: left out of the next line's examples per second.
  void leave_out(std::chrono::steady_clock::duration time) { window_start_ += time; }

 private:
  RunLogs(const RunConfig& config, const RunPlan& plan, JsonLines metrics);
  bool reports_after(int64_t step) const;
  MetricsLine line_of(const FinishedStep& step, const CheckpointInfo& info) const;

  const RunConfig& config_;
  const RunPlan& plan_;
  JsonLines metrics_;
  std::optional<EventFile> events_;
  std::optional<HashLog> hashes_;
  std::optional<TensorLog> tensors_;  // floats have no exponents and bits to look at
  Observations observations_;
  int64_t last_rest_ = 0;  // the last step after which the state was at rest
  std::chrono::steady_clock::time_point window_start_;
};

}  // namespace mantissa
