// The eval command: how well a frozen network does on test examples.
#include <chrono>
#include <filesystem>
#include <utility>

#include "api/inference/evaluate_language.h"
#include "api/inference/network_data.h"
#include "api/outcome.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "base/system/thread_pool.h"
#include "data/batches/ordered_batches.h"
#include "infer/frozen_network.h"
#include "infer/tasks/classification.h"
#include "infer/tasks/regression.h"
#include "kernels/kernel_table.h"
#include "mantissa/mantissa.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

// A frozen network and the batches that it is measured on.
struct EvaluatedData {
  const InferenceConfig& config;
  FrozenNetwork& network;
  const std::string& data;
  Programs& programs;
  BatchSource& batches;
  const EvaluationObserver& observer;
  std::chrono::steady_clock::time_point start;

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

Result<EvaluationOutcome> score_classes(const EvaluatedData& at) {
  const FrozenNetwork& network = at.network;
  const ModelOptions& options = network.description.options;
  MANTISSA_ASSIGN(
      Evaluation evaluation,
      evaluate(at.programs, at.batches,
               {options.classes, options.one_logit, options.loss, at.config.isa}, at.observer));
  EvaluationOutcome outcome;
  outcome.seconds = at.seconds();
  outcome.class_names = network.description.class_names;
  outcome.model_sha256 = network.state.sha256(StateGroup::kPredictor);
  if (!at.config.out.empty()) {
    MANTISSA_RETURN_IF_ERROR(write_text_atomically(
        at.config.out, to_json(evaluation, at.data, outcome.class_names, outcome.model_sha256)));
  }
  outcome.json =
      to_json(evaluation, at.data, outcome.class_names, outcome.model_sha256, outcome.seconds);
  outcome.examples = evaluation.examples;
  outcome.accuracy = evaluation.accuracy();
  outcome.top5_accuracy = evaluation.top5_accuracy().value_or(-1);
  outcome.loss = evaluation.loss;
  outcome.confusion = std::move(evaluation.confusion);
  return outcome;
}

Result<EvaluationOutcome> score_numbers(const EvaluatedData& at) {
  const Target target = target_of(at.network.description);
  MANTISSA_ASSIGN(const RegressionEvaluation evaluation,
                  evaluate_regression(at.programs, at.batches, target, at.observer));
  EvaluationOutcome outcome;
  outcome.seconds = at.seconds();
  outcome.model_sha256 = at.network.state.sha256(StateGroup::kPredictor);
  if (!at.config.out.empty()) {
    MANTISSA_RETURN_IF_ERROR(write_text_atomically(
        at.config.out, to_json(evaluation, at.data, target, outcome.model_sha256)));
  }
  outcome.json = to_json(evaluation, at.data, target, outcome.model_sha256, outcome.seconds);
  outcome.examples = evaluation.examples;
  outcome.loss = evaluation.loss;
  outcome.target = target.column;
  outcome.r2 = evaluation.score.r2;
  outcome.rmse = evaluation.score.rmse;
  outcome.mae = evaluation.score.mae;
  return outcome;
}

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
  const TargetKind target = target_of(network.description).kind;
  if (target == TargetKind::kTokens) return evaluate_language(config, network, observer);
  MANTISSA_RETURN_IF_ERROR(check_examples(network, config.checkpoint));
  MANTISSA_ASSIGN(const Dataset data, load_test_data(config, network));
  const auto message = [&](std::string text) {
    if (observer == nullptr || text.empty()) return;
    Progress progress;
    progress.kind = Progress::Kind::kMessage;
    progress.message = std::move(text);
    observer(progress);
  };
  for (const std::string& note : data.info.notes) message(data.info.name + ": " + note);
  const kernels::KernelTable table = kernels::select_kernels(config.isa);
  MANTISSA_ASSIGN(const EvaluationPrograms programs,
                  compile_evaluation(network.graph, network.description.format, config.batch_size,
                                     data.test.count, {&table, config.threads},
                                     text_lengths(network.description, kTextLengths)));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(programs.arena_bytes()));
  ThreadPool pool(config.threads);
  message(pool.shortage());
  Programs executors = inference_programs(network, programs, {pool, arena.span(), config.isa});
  MANTISSA_ASSIGN(OrderedBatches batches,
                  OrderedBatches::create_by_length(examples_of(data.test), programs.batch_size,
                                                   programs.lengths));
  const auto start = std::chrono::steady_clock::now();
  const EvaluationObserver report =
      counting(observer, Progress::Kind::kEvaluating, data.test.count);
  const EvaluatedData evaluated{config, network, data.info.name, executors, batches, report, start};
  return target == TargetKind::kNumber ? score_numbers(evaluated) : score_classes(evaluated);
}

}  // namespace

EvaluationOutcome evaluate(const Settings& settings, const Observer& observer) {
  Result<EvaluationOutcome> outcome = run_evaluation(settings, observer);
  return outcome.ok() ? std::move(*outcome) : refused<EvaluationOutcome>(outcome.error());
}

}  // namespace mantissa
