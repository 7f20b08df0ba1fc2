#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/folder_lock.h"
#include "base/memory_limit.h"
#include "data/batches.h"
#include "data/split.h"
#include "kernels/convolution/choice.h"
#include "kernels/kernel_table.h"
#include "train/checkpoint.h"
#include "train/config_file.h"
#include "train/divergence.h"
#include "train/event_log.h"
#include "train/freeze.h"
#include "train/pretraining.h"
#include "train/resume.h"
#include "train/run_folder.h"
#include "train/run_logs.h"
#include "train/run_plan.h"
#include "train/step_times.h"
#include "train/summary.h"
#include "train/validation.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// A run in progress. One object, so that the loop's steps share state without passing it around.
class Run {
 public:
  Run(const RunConfig& config, const TrainObserver& observer)
      : config_(config), observer_(observer), folder_(config.out) {}

  Result<TrainingResult> run() {
    idle_bytes_ = resident_bytes();
    reset_peak_resident();
    MANTISSA_RETURN_IF_ERROR(start());
    MANTISSA_ASSIGN(config_text_, to_toml(config_));
    MANTISSA_ASSIGN(const DatasetInfo info, inspect_dataset(config_.data, data_options(config_)));
    MANTISSA_ASSIGN(plan_, plan_run(config_, info));
    MANTISSA_RETURN_IF_ERROR(check_budget(plan_.memory, config_.memory_budget));
    message(limit_warning(plan_.memory, idle_bytes_, memory_limit()));
    if (!config_.tensorboard.empty()) {
      MANTISSA_RETURN_IF_ERROR(
          check_event_file(event_file(config_.tensorboard, run_name(folder_), folder_)));
    }
    MANTISSA_RETURN_IF_ERROR(start());
    MANTISSA_ASSIGN(const FolderLock lock, prepare_run_folder(config_));
    if (config_.resume) MANTISSA_RETURN_IF_ERROR(check_same_settings(config_));
    if (!config_.format.is_float() &&
        kernels::is_left_to_reference(kernels::select_kernels(config_.isa).convolution, {})) {
      message(
          "this CPU lacks AVX2, or --isa scalar: convolution and linear layers run as plain loops, "
          "slow");
    }
    for (const std::string& note : info.notes) message(config_.data + ": " + note);
    MANTISSA_ASSIGN(data_, load_dataset(config_.data, true, true, data_options(config_)));
    MANTISSA_RETURN_IF_ERROR(check_unchanged(info, data_.info));
    info_.run_identity = run_identity(config_, data_sha256(data_));
    validation_ = std::exchange(data_.validation, {});
    if (validation_.count == 0) {
      MANTISSA_ASSIGN(validation_, split_off(data_.train, config_.seed, plan_.validation_examples));
    }
    MANTISSA_RETURN_IF_ERROR(set_channel_means(config_, channel_means(data_.train), plan_));
    if (config_.resume) {
      MANTISSA_ASSIGN(auto text, read_summary(folder_, info_.run_identity));
      if (text) {
        note_untidy(tidy_run_folder(folder_));
        MANTISSA_RETURN_IF_ERROR(check_converged(config_, diverged_by(*text)));
        return TrainingResult{std::move(*text), to_string(plan_.memory), true};
      }
    }
    MANTISSA_ASSIGN(State state, State::create(plan_.layout));
    state_.emplace(std::move(state));
    MANTISSA_ASSIGN(AlignedMemory arena, AlignedMemory::create(plan_.arena_bytes()));
    arena_.emplace(std::move(arena));
    pool_.emplace(config_.threads);
    message(pool_->shortage());
    MANTISSA_RETURN_IF_ERROR(start());
    initialise(plan_.graph, config_.format, config_.seed, *state_);
    MANTISSA_RETURN_IF_ERROR(restore_or_start());
    MANTISSA_RETURN_IF_ERROR(loop());
    return finish();
  }

 private:
  // Whether a run that has not begun may go on.
  Status start() {
    TrainEvent event;
    event.kind = TrainEventKind::kStarting;
    if (observer_ == nullptr || observer_(event)) return {};
    return make_error(ErrorCode::kInterrupted, "interrupted before the first step");
  }

  Status restore_or_start() {
    std::optional<CheckpointInfo> saved;
    if (config_.resume) {
      MANTISSA_ASSIGN(saved, load_newest_checkpoint(folder_, info_.run_identity, *state_));
    }
    if (saved) {
      info_ = std::move(*saved);
      message("resuming at step " + std::to_string(info_.step));
    } else {
      if (config_.resume) {
        MANTISSA_RETURN_IF_ERROR(check_nothing_is_lost(folder_));
        message("nothing saved yet: starting from the beginning");
      }
      MANTISSA_RETURN_IF_ERROR(remove_run(folder_));
    }
    note_untidy(tidy_run_folder(folder_));
    MANTISSA_RETURN_IF_ERROR(write_text_atomically(folder_ / kConfigFile, config_text_));
    return !saved && config_.format.float_steps() > 0 ? start_from_float() : Status{};
  }

  // What cannot be tidied up costs room on the disk, not the run.
  void note_untidy(const Status& done) {
    if (!done.ok()) message("not tidied up: " + done.error().message);
  }

  Status start_from_float() {
    const auto report = [&](int64_t done) {
      TrainEvent event;
      event.kind = TrainEventKind::kPretraining;
      event.step = done;
      event.steps = config_.format.float_steps();
      return observer_ == nullptr || observer_(event);
    };
    return pretrain(config_, plan_, data_.train, arena_->span(), *pool_, report, *state_);
  }

  bool is_done() const {
    return info_.step >= plan_.total_steps || stops_early(config_, plan_.steps_per_epoch, info_);
  }

  Status loop() {
    if (is_done()) return {};
    MANTISSA_ASSIGN(const auto batches, BatchPrefetcher::create(data_.train, batch_options()));
    if (!batches->works_ahead()) {
      message("no thread could be started to prepare batches ahead: each step waits for its own");
    }
    Executor executor(plan_.graph, plan_.training, *state_, arena_->span(), *pool_, config_.isa);
    MANTISSA_ASSIGN(RunLogs logs, RunLogs::open(config_, plan_, info_, *state_));
    for (const std::string& gap : logs.gaps()) message(gap);
    times_.reserve(plan_.total_steps - info_.step);
    while (!is_done()) {
      executor.set_observations(logs.observations(info_.step + 1));
      FinishedStep step;
      step.learning_rate =
          learning_rate(run_schedule(config_, plan_.total_steps, info_.reductions), info_.step);
      MANTISSA_ASSIGN(step.result, take_step(executor, *batches, step.learning_rate));
      MANTISSA_ASSIGN(step.validation, end_epoch(logs));
      step.is_last = is_done();
      MANTISSA_ASSIGN(const std::optional<MetricsLine> line, logs.write(step, *state_, info_));
      const bool go_on = notify(step, line);
      if (!go_on || step.is_last || info_.step % checkpoint_steps() == 0) {
        MANTISSA_RETURN_IF_ERROR(logs.flush());
        MANTISSA_RETURN_IF_ERROR(checkpoint());
      }
      if (!go_on && !step.is_last) {
        return make_error(ErrorCode::kInterrupted, "interrupted at step " +
                                                       std::to_string(info_.step) +
                                                       "; a checkpoint is in " + config_.out);
      }
    }
    return {};
  }

  // Of the steps that are left.
  BatchOptions batch_options() const {
    return {.batch_size = config_.batch_size,
            .seed = config_.seed,
            .augmentation = config_.augmentation,
            .first_epoch = static_cast<uint32_t>(info_.step / plan_.steps_per_epoch),
            .first_step = info_.step % plan_.steps_per_epoch,
            .total_steps = plan_.total_steps - info_.step};
  }

  int64_t checkpoint_steps() const {
    return config_.checkpoint_every > 0 ? config_.checkpoint_every : plan_.steps_per_epoch;
  }

  Result<StepResult> take_step(Executor& executor, BatchPrefetcher& batches, double rate) {
    StepScalars scalars = step_scalars(config_);
    scalars.learning_rate = rate;
    scalars.step = info_.step;
    const auto start = Clock::now();
    const Batch batch = batches.next();
    const auto batch_came = Clock::now();
    MANTISSA_ASSIGN(const StepResult result,
                    executor.train_step(batch.pixels, batch.labels, scalars));
    const auto end = Clock::now();
    times_.add(seconds(end - batch_came), seconds(end - start));
    add_step(result, info_);
    return result;
  }

  // At the end of an epoch, and of the run: measures the examples that were held back, if any, and
  // decides what follows from it. Without any, the mean loss of the epoch's training decides.
  Result<std::optional<Evaluation>> end_epoch(RunLogs& logs) {
    std::optional<Evaluation> validation;
    const bool whole = info_.step % plan_.steps_per_epoch == 0;
    if (!whole && info_.step < plan_.total_steps) return validation;
    int64_t loss_q24 = std::exchange(info_.epoch_loss_q24, 0);
    if (plan_.validation_examples > 0) {
      const auto start = Clock::now();
      MANTISSA_ASSIGN(FrozenNetwork frozen, frozen_network());
      TrainEvent event;
      event.kind = TrainEventKind::kValidating;
      event.steps = validation_.count;
      // Goes on to its end: what follows from it belongs to the checkpoint.
      const auto report = [&](int64_t done, int64_t) {
        event.step = done;
        if (observer_ != nullptr && !observer_(event)) stop_requested_ = true;
        return true;
      };
      MANTISSA_ASSIGN(validation, evaluate(frozen, plan_.validation, inference_arena(), *pool_,
                                           config_.isa, validation_, report));
      logs.leave_out(Clock::now() - start);
      loss_q24 = validation->loss_q24;
      message("step " + std::to_string(info_.step) + ": validation loss " +
              decimals(validation->loss, 4) + ", accuracy " +
              decimals(100 * validation->accuracy(), 2) + " %");
    } else if (!whole) {
      if (config_.early_stop == 0) return validation;
      loss_q24 =
          whole_epoch_loss(loss_q24, info_.step % plan_.steps_per_epoch, plan_.steps_per_epoch);
    }
    if (note_epoch(config_, plan_.steps_per_epoch, loss_q24, info_)) {
      info_.best_correct = validation ? validation->correct : 0;
      if (config_.early_stop > 0) {
        MANTISSA_RETURN_IF_ERROR(write_checkpoint(best_path(folder_), info_, *state_));
      }
    }
    return validation;
  }

  static std::string decimals(double value, int digits) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%.*f", digits, value);
    return text.data();
  }

  // Whether to go on.
  bool notify(const FinishedStep& step, const std::optional<MetricsLine>& line) {
    if (line) shown_loss_ = line->loss, shown_accuracy_ = line->accuracy;
    if (observer_ == nullptr) return true;
    if (info_.step <= kReportSteps) {
      shown_loss_ = step.result.loss, shown_accuracy_ = step.result.accuracy;
    }
    const double per_second = times_.examples_per_second(config_.batch_size);
    const bool go_on =
        observer_({.kind = TrainEventKind::kStep,
                   .step = info_.step,
                   .steps = plan_.total_steps,
                   .epoch = (info_.step - 1) / plan_.steps_per_epoch + 1,
                   .epochs = (plan_.total_steps - 1) / plan_.steps_per_epoch + 1,
                   .loss = shown_loss_,
                   .accuracy = shown_accuracy_,
                   .learning_rate = step.learning_rate,
                   .examples_per_second = per_second,
                   .seconds_left =
                       static_cast<double>((plan_.total_steps - info_.step) * config_.batch_size) /
                       std::max(1e-9, per_second),
                   .message = {}});
    return go_on && !stop_requested_;
  }

  void message(std::string text) {
    if (observer_ == nullptr || text.empty()) return;
    TrainEvent event;
    event.kind = TrainEventKind::kMessage;
    event.message = std::move(text);
    observer_(event);
  }

  Status checkpoint() {
    MANTISSA_RETURN_IF_ERROR(
        write_checkpoint(checkpoint_path(folder_, info_.step), info_, *state_));
    note_untidy(rotate_checkpoints(folder_));
    if (observer_ != nullptr) {
      TrainEvent event;
      event.kind = TrainEventKind::kCheckpoint;
      event.step = info_.step;
      event.message = checkpoint_path(folder_, info_.step).string();
      observer_(event);
    }
    return {};
  }

  // In the arena, so that it is there until the next step is taken.
  Result<FrozenNetwork> frozen_network() {
    FrozenNetwork frozen{{config_.model, plan_.options, config_.format, data_.info.class_names,
                          data_.info.name, state_->sha256(StateGroup::kStatistics), config_.loss},
                         freeze_graph(plan_.graph),
                         State(plan_.frozen_layout, arena_->span())};
    MANTISSA_RETURN_IF_ERROR(freeze(
        plan_.graph, *state_, plan_.calibration, inference_arena(), *pool_, config_.isa,
        data_.train, calibration_examples(data_.train, config_.seed, plan_.calibration_examples),
        frozen));
    return frozen;
  }

  // What a frozen network in the arena leaves of it.
  std::span<std::byte> inference_arena() const {
    return arena_->span().subspan(static_cast<size_t>(plan_.frozen_bytes()));
  }

  // With early stopping the weights of the best epoch are what is frozen.
  Status take_best() {
    if (config_.early_stop == 0) return {};
    MANTISSA_RETURN_IF_ERROR(load_best(folder_, info_, *state_));
    message((info_.step < plan_.total_steps ? "stopped early at step " : "ended with step ") +
            std::to_string(info_.step) + "; keeping the weights of step " +
            std::to_string(info_.best_step));
    return {};
  }

  // Of the steps whose weights are kept.
  Result<TrainingLoss> training_loss() const {
    if (config_.early_stop > 0 && info_.best_step != info_.step) return TrainingLoss{};
    MANTISSA_ASSIGN(const std::vector<MetricsLine> lines, read_metrics(folder_ / kMetricsFile));
    return last_training_loss(lines, kJudgedSteps);
  }

  Result<TrainingResult> finish() {
    MANTISSA_RETURN_IF_ERROR(take_best());
    TrainEvent event;
    event.kind = TrainEventKind::kEvaluating;
    event.steps = data_.test.count;
    // The last checkpoint is written: stopping here loses nothing, and --resume evaluates.
    const auto report = [&](int64_t done, int64_t) {
      event.step = done;
      return observer_ == nullptr || observer_(event);
    };
    report(0, 0);
    const std::string weights_sha256 = state_->sha256(StateGroup::kStatistics);
    MANTISSA_ASSIGN(FrozenNetwork frozen, frozen_network());
    MANTISSA_RETURN_IF_ERROR(save_frozen(folder_ / kModelFile, frozen));
    MANTISSA_ASSIGN(const Evaluation evaluation,
                    evaluate(frozen, plan_.evaluation, inference_arena(), *pool_, config_.isa,
                             data_.test, report));
    MANTISSA_RETURN_IF_ERROR(write_text_atomically(
        folder_ / kEvaluationFile, to_json(evaluation, config_.data, data_.info.class_names,
                                           frozen.state.sha256(StateGroup::kPredictor))));
    MANTISSA_ASSIGN(const TrainingLoss loss, training_loss());
    TrainingResult result;
    const std::string diverged =
        divergence(config_.loss, plan_.graph.classes(), loss, evaluation.loss);
    result.summary_json = to_json(RunSummary{.config = config_,
                                             .plan = plan_,
                                             .info = info_,
                                             .times = times_,
                                             .evaluation = evaluation,
                                             .train_examples = data_.train.count,
                                             .peak_rss_bytes = peak_resident_bytes() - idle_bytes_,
                                             .weights_sha256 = weights_sha256,
                                             .state_sha256 = state_->sha256(StateGroup::kPredictor),
                                             .diverged = diverged});
    result.plan_text = to_string(plan_.memory);
    MANTISSA_RETURN_IF_ERROR(write_text_atomically(folder_ / kSummaryFile, result.summary_json));
    MANTISSA_RETURN_IF_ERROR(check_converged(config_, diverged));
    // A shorter run need not show anything yet.
    if (info_.step >= kReportSteps) message(learning_note(config_, plan_.graph.classes(), loss));
    return result;
  }

  const RunConfig& config_;
  const TrainObserver& observer_;
  fs::path folder_;
  std::string config_text_;  // config.toml
  RunPlan plan_;
  Dataset data_;
  ImageSet validation_;  // the data set's own, or held back from data_.train
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<ThreadPool> pool_;
  CheckpointInfo info_;
  StepTimes times_;
  bool stop_requested_ = false;                 // by the observer, while validating
  double shown_loss_ = 0, shown_accuracy_ = 0;  // the observer sees those of the last line
  int64_t idle_bytes_ = 0;
};

}  // namespace

Result<TrainingResult> train(const RunConfig& config, const TrainObserver& observer) {
  return Run(config, observer).run();
}

}  // namespace mantissa
