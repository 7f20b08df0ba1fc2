#include "run/logs/run_logs.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "ops/loss.h"
#include "run/logs/event_log.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

using Clock = std::chrono::steady_clock;

// The means of an output over some examples; `validation`: its score, if it was measured.
OutputMetrics metrics_of(const ModelOptions& output, const OutputSums& sums, double examples,
                         const Score* validation) {
  OutputMetrics metrics{.loss = ops::loss_value(output.loss, sums.loss_q24) / examples};
  const bool has_classes = !ops::is_for_numbers(output.loss);
  if (has_classes) metrics.accuracy = static_cast<double>(sums.correct) / examples;
  if (validation == nullptr) return metrics;
  metrics.validation_loss = validation->loss;
  if (has_classes) metrics.validation_accuracy = validation->accuracy();
  return metrics;
}

}  // namespace

RunLogs::RunLogs(const RunConfig& config, const RunPlan& plan, JsonLines metrics)
    : config_(config), plan_(plan), metrics_(std::move(metrics)), observations_(plan.training) {}

Result<RunLogs> RunLogs::open(const RunConfig& config, const RunPlan& plan,
                              const CheckpointInfo& info, const State& state) {
  const std::filesystem::path folder = config.out;
  MANTISSA_ASSIGN(JsonLines metrics,
                  JsonLines::open(folder / kMetricsFile, info.step, kReportSteps));
  RunLogs logs(config, plan, std::move(metrics));
  if (!config.tensorboard.empty()) {
    MANTISSA_ASSIGN(logs.events_,
                    write_events(folder / kMetricsFile,
                                 event_file(config.tensorboard, run_name(folder), folder),
                                 config.batch_size, wall_time_now()));
  }
  if (config.hash_every > 0) {
    const PipelineConfig& way = config.pipeline;
    const int64_t drain_every = way.drain_every > 0 ? way.drain_every : plan.steps_per_epoch;
    MANTISSA_ASSIGN(logs.hashes_, HashLog::open(folder / kHashesFile, info.run_identity, info.step,
                                                config.hash_every,
                                                way.is_asynchronous() ? drain_every : 0, state));
    logs.last_rest_ = info.step;
  }
  // In an asynchronous pipeline tensors belong to no single step. The tensors of other processes
  // cannot be seen.
  if (!config.format.is_float() && !config.pipeline.is_asynchronous() &&
      config.pipeline.processes == 1) {
    MANTISSA_ASSIGN(logs.tensors_, TensorLog::open(folder / kTensorsFile, plan.graph, plan.training,
                                                   info.step, kReportSteps, config.statistics));
  }
  logs.window_start_ = Clock::now();
  return logs;
}

std::vector<std::string> RunLogs::gaps() const {
  std::vector<std::string> gaps = {metrics_.gap()};
  if (hashes_) gaps.push_back(hashes_->gap());
  if (tensors_) gaps.push_back(tensors_->gap());
  std::erase(gaps, "");
  return gaps;
}

Status RunLogs::flush() {
  MANTISSA_RETURN_IF_ERROR(metrics_.flush());
  if (hashes_) MANTISSA_RETURN_IF_ERROR(hashes_->flush());
  if (tensors_) MANTISSA_RETURN_IF_ERROR(tensors_->flush());
  return {};
}

bool RunLogs::reports_after(int64_t step) const {
  return step % kReportSteps == 0 || step == plan_.total_steps;
}

Observations* RunLogs::observations(int64_t step) {
  return observes(step) ? &observations_ : nullptr;
}

bool RunLogs::observes(int64_t step) const {
  if (!tensors_) return false;
  // Whether an epoch is the last is known only after its last step.
  return reports_after(step) || (config_.early_stop > 0 && step % plan_.steps_per_epoch == 0);
}

MetricsLine RunLogs::line_of(const FinishedStep& step, const CheckpointInfo& info) const {
  const double seconds =
      std::max(1e-9, std::chrono::duration<double>(Clock::now() - window_start_).count());
  const auto examples =
      static_cast<double>(std::max<int64_t>(1, info.window_steps) * config_.batch_size);
  const double labels = examples * static_cast<double>(config_.labels_per_example());
  MetricsLine line{
      .step = info.step,
      .epoch = static_cast<double>(info.step) / static_cast<double>(plan_.steps_per_epoch),
      .loss = summed_loss(plan_.options, info.window_loss_q24) / labels,
      .learning_rate = step.learning_rate,
      .examples_per_second = examples / seconds,
      .saturation_rate = fraction(info.window_saturated, info.window_requantised)};
  const bool has_classes =
      !ops::is_for_numbers(plan_.options.loss) && plan_.options.outputs.empty();
  if (has_classes) line.accuracy = static_cast<double>(info.window_correct) / labels;
  if (config_.clip_norm > 0) line.gradient_norm = step.result.gradient_norm;
  if (step.validation) {
    line.validation_loss = step.validation->loss;
    if (has_classes) line.validation_accuracy = step.validation->accuracy();
  }
  for (size_t i = 0; i < plan_.options.outputs.size(); ++i) {
    const ModelOptions& output = plan_.options.outputs[i];
    line.outputs[output.labels] = metrics_of(output, info.window_outputs[i], examples,
                                             step.validation ? &step.validation->outputs[i] : nullptr);
  }
  return line;
}

Result<std::optional<MetricsLine>> RunLogs::write(const FinishedStep& step, const State& state,
                                                  CheckpointInfo& info) {
  std::optional<MetricsLine> line;
  if (reports_after(info.step) || step.validation) {
    line = line_of(step, info);
    MANTISSA_RETURN_IF_ERROR(metrics_.write(to_json(*line)));
    if (events_) {
      MANTISSA_RETURN_IF_ERROR(events_->write(wall_time_now(), line->step, scalars_of(*line)));
    }
    info.window_outputs.clear();
    info.window_steps = info.window_correct = info.window_loss_q24 = 0;
    info.window_saturated = info.window_requantised = 0;
    window_start_ = Clock::now();
  }
  if (observations(info.step) != nullptr) {
    MANTISSA_RETURN_IF_ERROR(tensors_->write(info.step, step.tensors));
  }
  if (hashes_ && step.at_rest) {
    const int64_t before = std::exchange(last_rest_, info.step);
    if (info.step / config_.hash_every > before / config_.hash_every || step.is_last) {
      MANTISSA_RETURN_IF_ERROR(hashes_->write(info.step, state));
    }
  }
  return line;
}

}  // namespace mantissa
