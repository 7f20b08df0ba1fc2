// The eval command: how well a frozen network does on test examples.
#include "api/inference/evaluate.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "api/inference/network_data.h"
#include "api/outcome.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "base/system/thread_pool.h"
#include "data/batches/ordered_batches.h"
#include "kernels/kernel_table.h"
#include "run/settings/run_folder.h"

namespace mantissa {

void tell(const Observer& observer, std::string message) {
  if (observer == nullptr || message.empty()) return;
  Progress progress;
  progress.kind = Progress::Kind::kMessage;
  progress.message = std::move(message);
  observer(progress);
}

Result<Task::Report> evaluate_task(const InferenceConfig& config, FrozenNetwork& network,
                                   const Task& task, const Examples& examples,
                                   const Observer& observer, EvaluationOutcome& outcome) {
  const kernels::KernelTable table = kernels::select_kernels(config.isa);
  MANTISSA_ASSIGN(const EvaluationPrograms programs,
                  compile_evaluation(network.graph, network.description.format, config.batch_size,
                                     examples.count, {&table, config.threads},
                                     text_lengths(network.description, kTextLengths)));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(programs.arena_bytes()));
  ThreadPool pool(config.threads);
  tell(observer, pool.shortage());
  Programs executors = inference_programs(network, programs, {pool, arena.span(), config.isa});
  MANTISSA_ASSIGN(OrderedBatches batches, OrderedBatches::create_by_length(
                                              examples, programs.batch_size, programs.lengths));
  const auto start = std::chrono::steady_clock::now();
  MANTISSA_ASSIGN(Task::Report report,
                  task.evaluate(executors, batches,
                                counting(observer, Progress::Kind::kEvaluating, examples.count)));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  outcome.seconds = time.count();
  outcome.model_sha256 = network.state.sha256(StateGroup::kPredictor);
  const Score& score = report.score;
  outcome.examples = score.examples;
  outcome.accuracy = score.accuracy();
  outcome.top5_accuracy = report.top5_accuracy.value_or(-1);
  outcome.loss = score.loss;
  outcome.confusion = report.confusion;
  const RegressionScore numbers = score.regression.value_or(RegressionScore());
  outcome.r2 = numbers.r2;
  outcome.rmse = numbers.rmse;
  outcome.mae = numbers.mae;
  return report;
}

Status write_report(const InferenceConfig& config, const Task::Report& report,
                    EvaluationOutcome& outcome) {
  outcome.json = report.json(outcome.model_sha256, outcome.seconds);
  if (config.out.empty()) return {};
  return write_text_atomically(config.out, report.json(outcome.model_sha256, std::nullopt));
}

namespace {

Result<EvaluationOutcome> run_evaluation(const Settings& settings, const Observer& observer) {
  MANTISSA_ASSIGN(InferenceConfig config, inference_config("eval", settings));
  if (!config.out.empty()) {
    MANTISSA_ASSIGN(const PathKind kind, path_kind(config.out));
    if (kind == PathKind::kFolder) {
      config.out = (std::filesystem::path(config.out) / kEvaluationFile).string();
    }
    MANTISSA_RETURN_IF_ERROR(check_target("out", config.out));
  }
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  const FrozenDescription& description = network.description;
  const Target target = target_of(description);
  if (target.kind == TargetKind::kTokens) return evaluate_language(config, network, observer);
  MANTISSA_RETURN_IF_ERROR(check_examples(network, config.checkpoint));
  MANTISSA_ASSIGN(const Dataset data, load_test_data(config, network));
  for (const std::string& note : data.info.notes) tell(observer, data.info.name + ": " + note);
  MANTISSA_ASSIGN(const Task task, task_of(target, description.network, description.options,
                                           data.info.name, config.isa));
  EvaluationOutcome outcome;
  outcome.class_names = description.class_names;
  outcome.target = target.column;
  MANTISSA_ASSIGN(const Task::Report report,
                  evaluate_task(config, network, task, examples_of(data.test), observer, outcome));
  MANTISSA_RETURN_IF_ERROR(write_report(config, report, outcome));
  return outcome;
}

}  // namespace

EvaluationOutcome evaluate(const Settings& settings, const Observer& observer) {
  Result<EvaluationOutcome> outcome = run_evaluation(settings, observer);
  return outcome.ok() ? std::move(*outcome) : refused<EvaluationOutcome>(outcome.error());
}

}  // namespace mantissa
