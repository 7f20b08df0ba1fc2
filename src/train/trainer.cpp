#include "train/trainer.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/folder_lock.h"
#include "base/system/memory_limit.h"
#include "data/batches/shuffled_batches.h"
#include "infer/tasks/classification.h"
#include "kernels/convolution/choice.h"
#include "kernels/kernel_table.h"
#include "models/json/network_json.h"
#include "run/checkpoint.h"
#include "run/logs/event_log.h"
#include "run/logs/run_logs.h"
#include "run/logs/summary.h"
#include "run/plan/run_data.h"
#include "run/plan/run_inference.h"
#include "run/plan/run_plan.h"
#include "run/plan/steps.h"
#include "run/settings/config_file.h"
#include "run/settings/resume.h"
#include "run/settings/run_folder.h"
#include "run/settings/run_network.h"
#include "run/step_times.h"
#include "train/divergence.h"
#include "train/early_stop.h"
#include "train/loop.h"
#include "train/pretraining.h"
#include "train/worker.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// A run from its first step to its end. A view, except for its counters.
struct Run {
  const RunConfig& config;
  const TrainObserver& observer;
  const RunPlan& plan;
  const RunData& data;
  const Task& task;
  const Machine& machine;
  State& state;
  CheckpointInfo& info;
  StepTimes times = {};
  int64_t idle_bytes = 0;         // resident before the run began
  std::vector<double> idle = {};  // of each stage of a pipeline
  std::vector<pipeline::MissedUpdates> missed = {};
  MpiTransport* transport = nullptr;
  std::vector<int64_t> bytes_sent = {};  // by process

  RunInference inference() const { return {config, plan, data, machine}; }
};

// Plans the run, and finds all reasons to refuse it before it changes anything.
Result<RunPlan> plan_and_check(const RunConfig& config, const TrainObserver& observer,
                               const DatasetInfo& data, int64_t idle_bytes) {
  MANTISSA_ASSIGN(RunPlan plan, plan_run(config, data));
  MANTISSA_RETURN_IF_ERROR(check_budget(plan.memory, config.memory_budget));
  tell_message(observer, limit_warning(plan.memory, idle_bytes, memory_limit()));
  if (!config.tensorboard.empty()) {
    const fs::path folder = config.out;
    MANTISSA_RETURN_IF_ERROR(
        check_event_file(event_file(config.tensorboard, run_name(folder), folder)));
  }
  MANTISSA_RETURN_IF_ERROR(may_start(observer));
  return plan;
}

void tell_what_is_slow(const RunConfig& config, const TrainObserver& observer) {
  if (config.format.is_float() ||
      !kernels::is_left_to_reference(kernels::select_kernels(config.isa).convolution, {})) {
    return;
  }
  tell_message(observer,
               "this CPU lacks AVX2, or --isa scalar: convolution and linear layers run as plain "
               "loops, slow");
}

// The result of a run that ended before, if this is one.
Result<std::optional<TrainingResult>> finished_before(const RunConfig& config,
                                                      const TrainObserver& observer,
                                                      const RunPlan& plan,
                                                      const std::string& run_identity) {
  if (!config.resume) return std::optional<TrainingResult>();
  const fs::path folder = config.out;
  MANTISSA_ASSIGN(auto text, read_summary(folder, run_identity));
  if (!text) return std::optional<TrainingResult>();
  tell_failure(observer, "not tidied up", tidy_run_folder(folder));
  MANTISSA_RETURN_IF_ERROR(check_converged(config, diverged_by(*text)));
  return std::optional(TrainingResult{std::move(*text), to_string(plan.memory), true});
}

// Batches for training from a step on, of these lengths.
Result<std::unique_ptr<ShuffledBatches>> training_batches(const RunConfig& config,
                                                          const RunPlan& plan, const RunData& data,
                                                          int64_t step, int64_t steps,
                                                          BatchLengths lengths = {}) {
  return ShuffledBatches::create(data.augmented,
                                 {.batch_size = config.batch_size,
                                  .seed = config.seed,
                                  .first_epoch = static_cast<uint32_t>(step / plan.steps_per_epoch),
                                  .first_step = step % plan.steps_per_epoch,
                                  .total_steps = steps,
                                  .lengths = std::move(lengths)});
}

// The batches with the probabilities of the run's teacher; null: it has none.
Result<std::unique_ptr<TaughtBatches>> taught_batches(const Run& run, BatchSource& batches) {
  if (!run.plan.teacher) return std::unique_ptr<TaughtBatches>();
  return TaughtBatches::create(batches, *run.plan.teacher, run.machine.pool, run.machine.isa);
}

// Steps in fp32 that give a run in dynamic fixed point its first weights and exponents.
Status start_from_float(Run& run, const TrainedFile* trained) {
  const int64_t steps = run.config.format.float_steps();
  MANTISSA_ASSIGN(const auto batches, training_batches(run.config, run.plan, run.data, 0, steps));
  const auto report = [&](int64_t done) {
    return tell_done(run.observer, TrainEventKind::kPretraining, done, steps);
  };
  MANTISSA_ASSIGN(const auto taught, taught_batches(run, *batches));
  BatchSource& source = taught ? static_cast<BatchSource&>(*taught) : *batches;
  release_free_memory();  // of executors in the making
  return pretrain(run.config, run.plan, source, run.machine, report, run.state, trained);
}

// Takes the weights that the run starts from, and tells which.
Result<std::optional<TrainedFile>> take_start(Run& run) {
  if (!run.config.start) return std::optional<TrainedFile>();
  MANTISSA_ASSIGN(TrainedFile trained, reread(*run.config.start, Reading::kByParameter));
  MANTISSA_RETURN_IF_ERROR(take_trained(run.plan.graph, run.config.format, trained, run.state));
  tell_message(run.observer, to_string(run.plan.taken, trained.source));
  return std::optional(std::move(trained));
}

// Writes the files that config.toml names, before config.toml.
Status write_named_files(const Run& run, const TrainedFile* trained, bool has_start) {
  const fs::path folder = run.config.out;
  if (run.config.network) {
    MANTISSA_RETURN_IF_ERROR(
        write_text_atomically(folder / kNetworkFile, to_json(*run.config.network)));
  }
  if (trained == nullptr || has_start) return {};
  return write_start(folder / kStartFile,
                     {.source = trained->source,
                      .tokenizer = run.config.start->tokenizer,
                      .vocabulary = run.config.known_vocabulary,
                      .quantised = {},
                      .learned = run.config.start->learned},
                     *trained);
}

// Whether the run starts from the copy in its own folder.
bool starts_from_own_copy(const RunConfig& config) {
  std::error_code ignored;
  return config.start &&
         fs::equivalent(config.start->path, fs::path(config.out) / kStartFile, ignored);
}

// Replaces the running statistics of batch norms by their averages over some batches. All else of
// the state stays.
Status reestimate_statistics(Run& run) {
  const int64_t count = run.config.reestimate;
  const StateLayout& layout = run.plan.layout;
  const bool has_norms = std::any_of(
      layout.tensors.begin(), layout.tensors.end(),
      [](const StateTensor& tensor) { return tensor.group == StateGroup::kStatistics; });
  if (count == 0 || !has_norms) return {};
  const std::span<const std::byte> all = run.state.all_bytes();
  const std::vector<std::byte> before(all.begin(), all.end());
  MANTISSA_ASSIGN(const auto batches, training_batches(run.config, run.plan, run.data, 0, count));
  // On the threads that the program was compiled for.
  ThreadPool pool(threads_of_stage(run.config));
  const Machine machine{pool, run.machine.arena, run.machine.isa};
  Programs programs(run.plan.graph, run.state, machine);
  programs.add(run.plan.training);
  const auto scalars = [&](int64_t step) {
    StepScalars of_step = step_scalars(run.config);
    of_step.step = step;
    of_step.statistics_momentum = 1 / static_cast<double>(step + 1);
    return of_step;
  };
  const auto after = [&](const TakenStep& taken) -> Result<bool> {
    if (tell_done(run.observer, TrainEventKind::kReestimating, taken.step + 1, count)) return true;
    return make_error(ErrorCode::kInterrupted, "interrupted before the first step");
  };
  MANTISSA_ASSIGN(const auto taught, taught_batches(run, *batches));
  BatchSource& source = taught ? static_cast<BatchSource&>(*taught) : *batches;
  MANTISSA_RETURN_IF_ERROR(take_steps({programs, source, scalars, nullptr, after}, 0, count));
  for (size_t t = 0; t < layout.tensors.size(); ++t) {
    const StateTensor& tensor = layout.tensors[t];
    if (tensor.group == StateGroup::kStatistics) continue;
    std::copy_n(before.begin() + tensor.offset, tensor.bytes(),
                run.state.bytes(static_cast<int>(t)).begin());
  }
  tell_message(run.observer,
               "statistics of batch norms averaged over " + std::to_string(count) + " batches");
  return {};
}

// Goes on from the newest checkpoint, or begins anew in an empty folder.
Status restore_or_begin(Run& run, const std::string& config_text) {
  const fs::path folder = run.config.out;
  std::optional<TrainedFile> trained;
  const bool has_start = starts_from_own_copy(run.config);
  std::optional<CheckpointInfo> saved;
  if (run.config.resume) {
    MANTISSA_ASSIGN(saved, load_newest_checkpoint(folder, run.info.run_identity, run.state));
  }
  if (saved) {
    run.info = *saved;
    tell_message(run.observer, "resuming at step " + std::to_string(run.info.step));
  } else {
    if (run.config.resume) {
      MANTISSA_RETURN_IF_ERROR(check_nothing_is_lost(folder));
      tell_message(run.observer, "nothing saved yet: starting from the beginning");
    }
    for (const std::string& note : run.config.notes) tell_message(run.observer, note);
    // Read before it may be removed.
    MANTISSA_ASSIGN(trained, take_start(run));
    MANTISSA_RETURN_IF_ERROR(remove_run(folder, has_start));
  }
  tell_failure(run.observer, "not tidied up", tidy_run_folder(folder));
  const TrainedFile* const start = trained ? &*trained : nullptr;
  MANTISSA_RETURN_IF_ERROR(write_named_files(run, start, has_start));
  MANTISSA_RETURN_IF_ERROR(write_text_atomically(folder / kConfigFile, config_text));
  if (saved) return {};
  if (run.config.format.float_steps() > 0) {
    MANTISSA_RETURN_IF_ERROR(start_from_float(run, start));
  }
  return reestimate_statistics(run);
}

// A run without steps leaves a checkpoint all the same, which others can start from.
Status save_start(const Run& run) {
  const fs::path path = checkpoint_path(run.config.out, run.info.step);
  MANTISSA_RETURN_IF_ERROR(write_checkpoint(path, run.info, run.state));
  return {};
}

Status train(Run& run) {
  if (run.plan.total_steps == 0) return save_start(run);
  if (is_done(run.config, run.plan, run.info)) return {};
  MANTISSA_ASSIGN(const auto batches,
                  training_batches(run.config, run.plan, run.data, run.info.step,
                                   run.plan.total_steps - run.info.step, run.plan.lengths));
  if (!batches->works_ahead()) {
    tell_message(run.observer,
                 "no thread could be started to prepare batches ahead: each step waits for its "
                 "own");
  }
  const auto validate = [&](const EvaluationObserver& observer) {
    return validate_run(run.inference(), run.task, run.state, observer);
  };
  Programs programs(run.plan.graph, run.state, run.machine);
  if (run.plan.staged) {
    const StagedTraining& staged = *run.plan.staged;
    const Processes processes = processes_of(run.config, run.transport);
    if (run.transport != nullptr) {
      run.transport->set_describe(describe_positions(run.plan.graph, run.plan.training, processes));
      set_up_workers(run.config, run.plan, processes);
    }
    MANTISSA_RETURN_IF_ERROR(programs.add_stages(run.plan.training, staged.plan, staged.options,
                                                 staged.threads, processes));
  } else {
    programs.add(run.plan.training);
    for (const LengthProgram& each : run.plan.shorter) programs.add(each.graph, each.program);
  }
  MANTISSA_ASSIGN(const auto taught, taught_batches(run, *batches));
  BatchSource& source = taught ? static_cast<BatchSource&>(*taught) : *batches;
  MANTISSA_RETURN_IF_ERROR(
      run_loop({run.config, run.plan, run.task, run.observer, programs, validate},
               {run.state, run.info, run.times}, source));
  run.idle = programs.idle();
  run.missed = programs.missed_updates();
  run.bytes_sent = programs.bytes_sent();
  return {};
}

// With early stopping the weights of the best epoch are frozen.
Status take_best(Run& run) {
  if (run.config.early_stop == 0) return {};
  MANTISSA_RETURN_IF_ERROR(load_best(run.config.out, run.info, run.state));
  const bool early = run.info.step < run.plan.total_steps;
  tell_message(run.observer, (early ? "stopped early at step " : "ended with step ") +
                                 std::to_string(run.info.step) + "; keeping the weights of step " +
                                 std::to_string(run.info.best_step));
  return {};
}

// The loss of the last steps, if their weights are the kept ones.
Result<TrainingLoss> training_loss(const Run& run) {
  if (run.config.early_stop > 0 && run.info.best_step != run.info.step) return TrainingLoss{};
  MANTISSA_ASSIGN(const std::vector<MetricsLine> lines,
                  read_metrics(fs::path(run.config.out) / kMetricsFile));
  return last_training_loss(lines, kJudgedSteps);
}

// Freezes the network and tests it. The last checkpoint is written: stopping here loses nothing,
// and --resume evaluates.
Result<Score> test_frozen(Run& run) {
  const fs::path folder = run.config.out;
  const auto report = [&](int64_t done) {
    return tell_done(run.observer, TrainEventKind::kEvaluating, done, run.data.test.count);
  };
  report(0);
  MANTISSA_ASSIGN(FrozenNetwork frozen, freeze_run(run.inference(), run.state));
  MANTISSA_ASSIGN(frozen.description.thresholds,
                  run_thresholds(run.inference(), run.task, frozen, nullptr));
  MANTISSA_RETURN_IF_ERROR(save_frozen(folder / kModelFile, frozen));
  MANTISSA_ASSIGN(const Task task,
                  run_task(run.config, run.plan, run.data, frozen.description.thresholds));
  MANTISSA_ASSIGN(const Task::Report tested, test_run(run.inference(), task, frozen, report));
  MANTISSA_RETURN_IF_ERROR(write_text_atomically(
      folder / kEvaluationFile,
      tested.json(frozen.state.sha256(StateGroup::kPredictor), std::nullopt)));
  return tested.score;
}

Result<TrainingResult> finish(Run& run) {
  release_free_memory();  // of the programs that trained
  MANTISSA_RETURN_IF_ERROR(take_best(run));
  // With few bits, statistics that lag behind the weights do harm.
  if (run.plan.total_steps > 0) MANTISSA_RETURN_IF_ERROR(reestimate_statistics(run));
  MANTISSA_ASSIGN(const Score test, test_frozen(run));
  MANTISSA_ASSIGN(const TrainingLoss loss, training_loss(run));
  const std::string diverged = divergence(run.task, loss, test.loss);
  TrainingResult result;
  result.summary_json =
      to_json(RunSummary{.config = run.config,
                         .plan = run.plan,
                         .info = run.info,
                         .times = run.times,
                         .idle = run.idle,
                         .missed = run.missed,
                         .bytes_sent = run.bytes_sent,
                         .test = test,
                         .train_examples = run.data.train.count,
                         .peak_rss_bytes = peak_resident_bytes() - run.idle_bytes,
                         .weights_sha256 = run.state.sha256(StateGroup::kStatistics),
                         .state_sha256 = run.state.sha256(StateGroup::kPredictor),
                         .diverged = diverged});
  result.plan_text = to_string(run.plan.memory);
  MANTISSA_RETURN_IF_ERROR(
      write_text_atomically(fs::path(run.config.out) / kSummaryFile, result.summary_json));
  MANTISSA_RETURN_IF_ERROR(check_converged(run.config, diverged));
  // A shorter run need not show anything yet.
  if (run.info.step >= kReportSteps) {
    tell_message(run.observer, learning_note(run.config, run.task, loss));
  }
  return result;
}

}  // namespace

Result<TrainingResult> train(const RunConfig& chosen, const TrainObserver& observer,
                             MpiTransport* transport) {
  release_free_memory();
  const int64_t idle_bytes = resident_bytes();
  reset_peak_resident();
  MANTISSA_RETURN_IF_ERROR(may_start(observer));
  MANTISSA_ASSIGN(const DatasetInfo found, inspect_run_data(chosen));
  RunConfig config = chosen;
  adapt_learning_rate(found, config);
  MANTISSA_ASSIGN(const std::string config_text, to_toml(config));
  MANTISSA_RETURN_IF_ERROR(adapt_classes(found, config));
  MANTISSA_ASSIGN(RunPlan plan, plan_and_check(config, observer, found, idle_bytes));
  MANTISSA_ASSIGN(const FolderLock lock, prepare_run_folder(config));
  if (config.resume) MANTISSA_RETURN_IF_ERROR(check_same_settings(config));
  tell_what_is_slow(config, observer);
  for (const std::string& note : found.notes) tell_message(observer, config.data + ": " + note);
  MANTISSA_ASSIGN(const RunData data, load_run_data(config, found, plan));
  for (const std::string& note : data.notes) tell_message(observer, config.data + ": " + note);
  MANTISSA_RETURN_IF_ERROR(set_channel_means(config, data.channel_means, plan));
  CheckpointInfo info;
  info.run_identity = run_identity(config, data.sha256);
  MANTISSA_ASSIGN(auto before, finished_before(config, observer, plan, info.run_identity));
  if (before) return std::move(*before);

  release_free_memory();
  MANTISSA_ASSIGN(State state, State::create(plan.layout));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(plan.arena_bytes()));
  ThreadPool pool(config.threads);
  tell_message(observer, pool.shortage());
  MANTISSA_RETURN_IF_ERROR(may_start(observer));
  std::vector<bool> taken;
  if (config.start) taken = taken_parameters(plan.graph, config.start->parameters);
  initialise(plan.graph, config.format, config.seed, state, taken);
  MANTISSA_ASSIGN(const Task task, run_task(config, plan, data));
  const Machine machine{pool, arena.span(), config.isa};
  Run run{config, observer, plan,       data, task, machine,  state,
          info,   {},       idle_bytes, {},   {},   transport};
  MANTISSA_RETURN_IF_ERROR(restore_or_begin(run, config_text));
  release_free_memory();  // of parameters that were read
  MANTISSA_RETURN_IF_ERROR(train(run));
  return finish(run);
}

}  // namespace mantissa
