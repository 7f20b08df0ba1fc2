// The eval command: how well a frozen network does on test examples.
#include "api/inference/evaluate.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "api/inference/network_data.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "base/system/thread_pool.h"
#include "data/batches/ordered_batches.h"
#include "infer/tasks/regression.h"
#include "infer/text/translate.h"
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

namespace {

// Examples whose results, 4 bytes an element, take so much memory. The logits of a language model
// are the largest tensor by far.
int64_t most_at_once(const Graph& graph) {
  constexpr int64_t kMostBytes = int64_t{512} << 20;
  int64_t bytes = 1;
  for (const int output : graph.outputs) bytes += 4 * graph.values[output].shape.count();
  return std::max<int64_t>(1, kMostBytes / bytes);
}

}  // namespace

namespace {

// The numbers of a report, and those of its outputs.
Evaluation evaluation_of(const Task::Report& report) {
  Evaluation result;
  const Score& score = report.score;
  result.examples = score.examples;
  result.accuracy = score.accuracy();
  result.top5_accuracy = report.top5_accuracy.value_or(-1);
  result.loss = score.loss;
  result.confusion = report.confusion;
  const RegressionScore numbers = score.regression.value_or(RegressionScore());
  result.r2 = numbers.r2;
  result.rmse = numbers.rmse;
  result.mae = numbers.mae;
  for (const NumberScore& one : numbers.each) {
    result.targets.push_back({one.name, one.r2, one.rmse, one.mae});
  }
  for (const Task::Report& output : report.outputs) {
    result.outputs.push_back(evaluation_of(output));
    result.outputs.back().json = output.json("", std::nullopt);
  }
  return result;
}

}  // namespace

Result<Task::Report> evaluate_task(const EvaluationConfig& config, FrozenNetwork& network,
                                   const Task& task, const Examples& examples,
                                   const BatchLengths& lengths, const Observer& observer,
                                   Evaluation& result) {
  const kernels::KernelTable table = kernels::select_kernels(config.isa);
  const int64_t at_once = std::min(config.batch_size, most_at_once(network.graph));
  MANTISSA_ASSIGN(const EvaluationPrograms programs,
                  compile_evaluation(network.graph, network.description.format, at_once,
                                     examples.count, {&table, config.threads},
                                     task.reads_results ? Reads::kResults : Reads::kLoss, lengths));
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
  result = evaluation_of(report);
  result.seconds = time.count();
  result.model_sha256 = network.state.sha256(StateGroup::kPredictor);
  return report;
}

Status write_report(const EvaluationConfig& config, const Task::Report& report,
                    Evaluation& result) {
  result.json = report.json(result.model_sha256, result.seconds);
  if (config.out.empty()) return {};
  return write_text_atomically(config.out, report.json(result.model_sha256, std::nullopt));
}

namespace {

constexpr SettingOf<EvaluationConfig> kEvalRows[] = {
    kModelCheckpoint<EvaluationConfig>,
    kModelFormat<EvaluationConfig>,
    model_sequence<EvaluationConfig>(
        "positions of an example, of another program's language model (left out: 128, or as many "
        "as it has)"),
    {"data", "data set to evaluate on (left out: that of the training)", "",
     parse_text<&EvaluationConfig::data>},
    kIgnoreLabel<EvaluationConfig>,
    {"out", "file for the JSON, or a folder for evaluation.json", "",
     parse_text<&EvaluationConfig::out>},
    {"beam", "hypotheses of a sentence, of networks that translate", "4",
     parse_whole<1, kMostBeam, &EvaluationConfig::beam>},
    {"batch-size",
     "examples computed at once, fewer if their logits would take over 512 MiB; changes no result",
     "128", parse_whole<1, 1 << 20, &EvaluationConfig::batch_size>},
    kThreads<EvaluationConfig>,
    kIsa<EvaluationConfig>};
constexpr CommandOf<EvaluationConfig> kEvalCommand = {"eval", kEvalRows};

}  // namespace

CommandInfo eval_command() { return info_of<kEvalCommand>(); }

Result<EvaluationConfig> evaluation_config(const Settings& settings) {
  MANTISSA_ASSIGN(EvaluationConfig config, read_settings(kEvalCommand, settings));
  if (config.out.empty()) return config;
  MANTISSA_ASSIGN(const PathKind kind, path_kind(config.out));
  if (kind == PathKind::kFolder) {
    config.out = (std::filesystem::path(config.out) / kEvaluationFile).string();
  }
  MANTISSA_RETURN_IF_ERROR(check_target("out", config.out));
  return config;
}

Outcome<Evaluation> evaluate(const Settings& settings, const Observer& observer) {
  MANTISSA_ASSIGN(const EvaluationConfig config, evaluation_config(settings));
  constexpr int64_t kUsualSequence = 128;
  MANTISSA_ASSIGN(FrozenNetwork network,
                  load_network(config.checkpoint, config.file, kUsualSequence));
  const FrozenDescription& description = network.description;
  const Target target = target_of(description);
  if (target.kind == TargetKind::kTokens) return evaluate_language(config, network, observer);
  MANTISSA_RETURN_IF_ERROR(check_examples(network, config.checkpoint));
  MANTISSA_ASSIGN(const Dataset data, load_test_data(config, network));
  for (const std::string& note : data.info.notes) tell(observer, data.info.name + ": " + note);
  MANTISSA_ASSIGN(const Task task, task_of(target, description.network, description.options,
                                           data.info.name, config.isa, description.thresholds));
  Evaluation result;
  MANTISSA_ASSIGN(const Task::Report report,
                  evaluate_task(config, network, task, examples_of(data.test),
                                text_lengths(description, kTextLengths), observer, result));
  result.class_names = description.class_names;
  result.target = target_names(target);
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    Evaluation& output = result.outputs[i];
    output.output = target.parts[i].output;
    output.class_names = target.parts[i].names;
    output.target = target_names(target.parts[i]);
    output.seconds = result.seconds;
  }
  MANTISSA_RETURN_IF_ERROR(write_report(config, report, result));
  return result;
}

}  // namespace mantissa
