#include "train/loop.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/files/atomic_file.h"
#include "run/logs/run_logs.h"
#include "run/logs/trace_file.h"
#include "run/plan/steps.h"
#include "train/early_stop.h"

namespace mantissa {
namespace {

using Clock = std::chrono::steady_clock;

// The observer sees the numbers of the last line of metrics.jsonl until there is another.
struct Shown {
  double loss = 0, accuracy = 0;
};

int64_t steps_between_checkpoints(const LoopParts& parts) {
  return parts.config.checkpoint_every > 0 ? parts.config.checkpoint_every
                                           : parts.plan.steps_per_epoch;
}

// Whether the stages update together in this step, counted from 0.
bool flushes(const LoopParts& parts, int64_t step) {
  return !parts.config.pipeline.is_asynchronous() || step >= parts.plan.first_flushed_step;
}

// The next step after which the state is needed. An asynchronous pipeline empties when its settings
// say so; others do when something is due, and at every observed step.
int64_t next_rest(const LoopParts& parts, int64_t step, const RunLogs& logs) {
  const RunPlan& plan = parts.plan;
  if (!plan.staged) return step + 1;
  const int64_t epoch_end = (step / plan.steps_per_epoch + 1) * plan.steps_per_epoch;
  int64_t end = std::min(plan.total_steps, epoch_end);
  const auto not_behind = [&](int64_t every) {
    if (every > 0) end = std::min(end, (step / every + 1) * every);
  };
  if (!flushes(parts, step)) {
    not_behind(parts.config.pipeline.drain_every);
    return std::min(end, plan.first_flushed_step);
  }
  // The schedule is a list of them.
  constexpr int64_t kMostSteps = 256, kMostMicroBatches = 2048;
  const int64_t accumulate = plan.training.options.micro_batches;
  not_behind(std::clamp<int64_t>(kMostMicroBatches / accumulate, 1, kMostSteps));
  not_behind(parts.config.hash_every);
  not_behind(steps_between_checkpoints(parts));
  if (logs.observes(step + 1)) return step + 1;
  for (int64_t s = step + 1; s < end; ++s) {
    if (logs.observes(s + 1)) return s;
  }
  return end;
}

// Goes on to its end, whatever the observer says: decisions that follow from it belong to the
// checkpoint.
Result<Score> validate(const LoopParts& parts, const LoopState& at, RunLogs& logs, bool& stop) {
  const auto start = Clock::now();
  const auto report = [&](int64_t done) {
    if (!tell_done(parts.observer, TrainEventKind::kValidating, done,
                   parts.plan.validation_examples)) {
      stop = true;
    }
    return true;
  };
  MANTISSA_ASSIGN(const Score score, parts.validate(report));
  logs.leave_out(Clock::now() - start);
  tell_message(parts.observer, "step " + std::to_string(at.info.step) + ": validation " +
                                   parts.task.describe(score));
  return score;
}

// At the end of an epoch, and of the run: measures the held-back examples, if any, and acts on the
// score. Without any, the mean training loss of the epoch decides.
Result<std::optional<Score>> end_epoch(const LoopParts& parts, LoopState& at, RunLogs& logs,
                                       bool& stop) {
  const RunConfig& config = parts.config;
  const RunPlan& plan = parts.plan;
  CheckpointInfo& info = at.info;
  std::optional<Score> score;
  const int64_t steps = info.step % plan.steps_per_epoch;  // of an incomplete epoch
  if (steps != 0 && info.step < plan.total_steps) return score;
  int64_t loss_q24 = std::exchange(info.epoch_loss_q24, 0);
  if (plan.validation_examples > 0) {
    MANTISSA_ASSIGN(score, validate(parts, at, logs, stop));
    loss_q24 = score->loss_q24;
  } else if (steps != 0) {
    if (config.early_stop == 0) return score;
    loss_q24 = whole_epoch_loss(loss_q24, steps, plan.steps_per_epoch);
  }
  if (note_epoch(config, plan.steps_per_epoch, loss_q24, info)) {
    info.best_correct = score ? score->correct : 0;
    info.best_examples = score ? score->examples : 0;
    if (config.early_stop > 0) {
      MANTISSA_RETURN_IF_ERROR(write_checkpoint(best_path(config.out), info, at.state));
    }
  }
  return score;
}

// Whether to go on.
bool tell_step(const LoopParts& parts, const LoopState& at, const FinishedStep& step,
               const std::optional<MetricsLine>& line, Shown& shown) {
  const RunPlan& plan = parts.plan;
  if (line) shown = {line->loss, line->accuracy.value_or(-1)};
  if (at.info.step <= kReportSteps) shown = {step.result.loss, step.result.accuracy};
  if (!parts.task.counts_correct) shown.accuracy = -1;
  const int64_t batch_size = parts.config.batch_size;
  const double per_second = at.times.examples_per_second(batch_size);
  return tell(parts.observer,
              {.kind = TrainEventKind::kStep,
               .step = at.info.step,
               .steps = plan.total_steps,
               .epoch = (at.info.step - 1) / plan.steps_per_epoch + 1,
               .epochs = (plan.total_steps - 1) / plan.steps_per_epoch + 1,
               .loss = shown.loss,
               .accuracy = shown.accuracy,
               .learning_rate = step.learning_rate,
               .examples_per_second = per_second,
               .seconds_left = static_cast<double>((plan.total_steps - at.info.step) * batch_size) /
                               std::max(1e-9, per_second),
               .message = {}});
}

Status checkpoint(const LoopParts& parts, const LoopState& at) {
  const std::filesystem::path folder = parts.config.out;
  const std::filesystem::path path = checkpoint_path(folder, at.info.step);
  MANTISSA_RETURN_IF_ERROR(write_checkpoint(path, at.info, at.state));
  tell_failure(parts.observer, "not tidied up", rotate_checkpoints(folder));
  TrainEvent event;
  event.kind = TrainEventKind::kCheckpoint;
  event.step = at.info.step;
  event.message = path.string();
  tell(parts.observer, event);
  return {};
}

// Writes the trace once its last step is done.
void write_trace(const LoopParts& parts, const LoopState& at, int64_t& trace_end, bool ends) {
  if (trace_end == 0 || (at.info.step < trace_end && !ends)) return;
  trace_end = 0;
  pipeline::Trace trace = parts.programs.take_trace();
  for (const auto& names : parts.plan.staged->layer_names()) {
    trace.names.push_back(names.front() == names.back() ? names.front()
                                                        : names.front() + " to " + names.back());
  }
  const Status written = write_text_atomically(parts.config.trace, trace_json(trace));
  if (written.ok()) tell_message(parts.observer, "the trace is in " + parts.config.trace);
  tell_failure(parts.observer, "no trace", written);
}

}  // namespace

bool is_done(const RunConfig& config, const RunPlan& plan, const CheckpointInfo& info) {
  return info.step >= plan.total_steps || stops_early(config, plan.steps_per_epoch, info);
}

Status run_loop(const LoopParts& parts, LoopState at, BatchSource& batches) {
  const RunConfig& config = parts.config;
  CheckpointInfo& info = at.info;
  MANTISSA_ASSIGN(RunLogs logs, RunLogs::open(config, parts.plan, info, at.state));
  for (const std::string& gap : logs.gaps()) tell_message(parts.observer, gap);
  at.times.reserve(parts.plan.total_steps - info.step);
  Shown shown;
  bool stop = false;          // asked for: by the observer, or while validating
  int64_t begun = info.step;  // stages work on the steps from this one on,
  int64_t end = info.step;    // and before this one. The state is at rest where they end
  int64_t rest = info.step;   // the last step that it was at rest after
  int64_t trace_end = 0;      // the last step of the trace, until it is written
  if (!config.trace.empty()) {
    trace_end = info.step + std::min(config.trace_steps, parts.plan.total_steps - info.step);
    parts.programs.trace(info.step, trace_end);
  }
  const int64_t between = steps_between_checkpoints(parts);
  const auto scalars = [&](int64_t step) {
    return scalars_at(config, parts.plan.total_steps, info.reductions, step);
  };
  const auto before = [&](int64_t step) -> Status {
    if (step != end) return {};
    parts.programs.observe(logs.observations(step + 1));
    begun = step;
    end = next_rest(parts, step, logs);
    return parts.programs.begin(end - begun, begun, flushes(parts, begun));
  };
  const auto after = [&](const TakenStep& taken) -> Result<bool> {
    at.times.add(taken.seconds - taken.waiting_seconds, taken.seconds);
    add_step(taken.result, info);
    FinishedStep step;
    step.learning_rate = taken.learning_rate;
    step.result = taken.result;
    step.tensors = parts.programs.observed();
    step.at_rest = info.step == end;
    MANTISSA_ASSIGN(step.validation, end_epoch(parts, at, logs, stop));
    step.is_last = is_done(config, parts.plan, info);
    MANTISSA_ASSIGN(const std::optional<MetricsLine> line, logs.write(step, at.state, info));
    if (!tell_step(parts, at, step, line, shown)) stop = true;
    if (stop && !step.at_rest && flushes(parts, info.step)) {
      MANTISSA_ASSIGN(const int updates, parts.programs.end_early());
      end = begun + updates;
    }
    if (!step.at_rest) return !step.is_last;
    write_trace(parts, at, trace_end, stop || step.is_last);
    const bool is_due = info.step / between != std::exchange(rest, info.step) / between;
    if (stop || step.is_last || is_due) {
      MANTISSA_RETURN_IF_ERROR(logs.flush());
      MANTISSA_RETURN_IF_ERROR(checkpoint(parts, at));
    }
    if (stop && !step.is_last) {
      return make_error(ErrorCode::kInterrupted, "interrupted at step " +
                                                     std::to_string(info.step) +
                                                     "; a checkpoint is in " + config.out);
    }
    return !step.is_last;
  };
  if (is_done(config, parts.plan, info)) return {};
  return take_steps({parts.programs, batches, scalars, before, after}, info.step,
                    parts.plan.total_steps);
}

}  // namespace mantissa
