// The public interface, in terms of train/.
#include <chrono>
#include <nlohmann/json.hpp>

#include "api/outcome.h"
#include "api/settings.h"
#include "base/hash.h"
#include "formats/png.h"
#include "kernels/kernel_table.h"
#include "mantissa/mantissa.h"
#include "models/models.h"
#include "train/frozen_network.h"
#include "train/run_plan.h"
#include "train/trainer.h"

namespace mantissa {
namespace {

constexpr const char* kVersion = "0.1.0";

// Pictures must have the size and colours that the network was built for.
Status check_images(const ModelOptions& options, int64_t height, int64_t width, int64_t channels,
                    const std::string& source) {
  if (height == options.height && width == options.width && channels == options.channels) {
    return {};
  }
  const auto size = [](int64_t h, int64_t w, int64_t c) {
    return std::to_string(h) + "x" + std::to_string(w) + "x" + std::to_string(c);
  };
  return invalid_input(source + ": pictures are " + size(height, width, channels) +
                       ", the network takes " +
                       size(options.height, options.width, options.channels));
}

Result<EvaluationOutcome> run_evaluation(const Settings& settings, const Observer& observer) {
  MANTISSA_ASSIGN(const InferenceConfig config, inference_config("eval", settings));
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  const std::string source = config.data.empty() ? network.description.data : config.data;
  MANTISSA_ASSIGN(const Dataset data, load_dataset(source, false, true));
  const ModelOptions& options = network.description.options;
  MANTISSA_RETURN_IF_ERROR(
      check_images(options, data.info.height, data.info.width, data.info.channels, source));
  if (data.info.classes > options.classes) {
    return invalid_input(source + ": has " + std::to_string(data.info.classes) +
                         " classes, the network " + std::to_string(options.classes));
  }
  const kernels::KernelTable table = kernels::select_kernels(config.isa);
  MANTISSA_ASSIGN(const EvaluationPrograms programs,
                  compile_evaluation(network.graph, network.description.inference(),
                                     config.batch_size, data.test.count, {&table, config.threads}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(programs.arena_bytes()));
  ThreadPool pool(config.threads);
  const auto start = std::chrono::steady_clock::now();
  const auto report = [&](int64_t done, int64_t all) {
    if (observer == nullptr) return true;
    Progress progress;
    progress.kind = Progress::Kind::kEvaluating;
    progress.step = done;
    progress.steps = all;
    return observer(progress);
  };
  MANTISSA_ASSIGN(Evaluation evaluation,
                  evaluate(network, programs, arena.span(), pool, config.isa, data.test, report));
  EvaluationOutcome outcome;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.examples = evaluation.examples;
  outcome.accuracy = evaluation.accuracy();
  outcome.loss = evaluation.loss;
  outcome.class_names = network.description.class_names;
  outcome.confusion = std::move(evaluation.confusion);
  outcome.model_sha256 = network.state.sha256(StateGroup::kPredictor);
  return outcome;
}

// The pictures that a predict command names.
Result<std::vector<Prediction>> pictures(const InferenceConfig& config,
                                         const FrozenNetwork& network) {
  const ModelOptions& options = network.description.options;
  std::vector<Prediction> list;
  if (!config.input.empty()) {
    MANTISSA_ASSIGN(Image image, read_png(config.input, static_cast<int>(options.channels)));
    MANTISSA_RETURN_IF_ERROR(
        check_images(options, image.height, image.width, image.channels, config.input));
    list.push_back({config.input,
                    -1,
                    -1,
                    {},
                    image.height,
                    image.width,
                    image.channels,
                    std::move(image.pixels)});
    return list;
  }
  const std::string source = config.data.empty() ? network.description.data : config.data;
  MANTISSA_ASSIGN(const Dataset data, load_dataset(source, false, true));
  MANTISSA_RETURN_IF_ERROR(
      check_images(options, data.info.height, data.info.width, data.info.channels, source));
  if (config.last_index >= data.test.count) {
    return invalid_input("index: " + source + " has test examples 0 to " +
                         std::to_string(data.test.count - 1));
  }
  for (int64_t i = config.first_index; i <= config.last_index; ++i) {
    const auto first = data.test.pixels.begin() + i * data.test.example_bytes();
    list.push_back({"test " + std::to_string(i),
                    data.test.labels[i],
                    -1,
                    {},
                    data.test.height,
                    data.test.width,
                    data.test.channels,
                    std::vector<uint8_t>(first, first + data.test.example_bytes())});
  }
  return list;
}

Result<PredictionOutcome> run_prediction(const Settings& settings) {
  MANTISSA_ASSIGN(const InferenceConfig config, inference_config("predict", settings));
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  PredictionOutcome outcome;
  outcome.class_names = network.description.class_names;
  MANTISSA_ASSIGN(outcome.predictions, pictures(config, network));
  std::vector<uint8_t> pixels;
  for (const Prediction& prediction : outcome.predictions) {
    pixels.insert(pixels.end(), prediction.pixels.begin(), prediction.pixels.end());
  }
  ThreadPool pool(config.threads);
  const auto count = static_cast<int64_t>(outcome.predictions.size());
  MANTISSA_ASSIGN(const std::vector<double> all,
                  probabilities(network, pixels, count, pool, config.isa));
  const int64_t classes = network.graph.classes();
  for (int64_t i = 0; i < count; ++i) {
    Prediction& prediction = outcome.predictions[i];
    prediction.probabilities.assign(all.begin() + i * classes, all.begin() + (i + 1) * classes);
    const auto best =
        std::max_element(prediction.probabilities.begin(), prediction.probabilities.end());
    prediction.guess = static_cast<int>(best - prediction.probabilities.begin());
  }
  return outcome;
}

nlohmann::ordered_json items_json(const std::vector<MemoryItem>& items) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const MemoryItem& item : items) json.push_back({{"name", item.name}, {"bytes", item.bytes}});
  return json;
}

Result<PlanOutcome> run_plan(const Settings& settings) {
  MANTISSA_ASSIGN(const RunConfig config, training_config(settings));
  MANTISSA_ASSIGN(const DatasetInfo data, inspect_dataset(config.data));
  MANTISSA_ASSIGN(const RunPlan plan, plan_run(config, data));
  MANTISSA_RETURN_IF_ERROR(check_budget(plan.memory, config.memory_budget));
  PlanOutcome outcome;
  outcome.text = to_string(plan.graph) + "\ntraining program, micro-batch " +
                 std::to_string(config.micro_batch_size) + " (buffer@offset+bytes)\n" +
                 to_string(plan.training) + "\n" + to_string(plan.memory);
  const nlohmann::ordered_json json = {{"model", config.model},
                                       {"parameters", plan.graph.trained_parameters()},
                                       {"planned_peak_bytes", plan.memory.peak_bytes()},
                                       {"arena_bytes", plan.arena_bytes()},
                                       {"largest_live_set_bytes", plan.training.live_bytes},
                                       {"weight_state_bytes", plan.layout.weight_state_bytes()},
                                       {"instructions", plan.training.instructions.size()},
                                       {"memory", items_json(plan.memory.items)},
                                       {"arena", items_json(plan.memory.arena)},
                                       {"largest_buffers", items_json(plan.memory.consumers)}};
  outcome.json = json.dump(2);
  return outcome;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> built_in_models() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const ModelInfo& model : models()) list.emplace_back(model.name, model.description);
  return list;
}

TrainingOutcome train(const Settings& settings, const Observer& observer) {
  const Result<RunConfig> config = training_config(settings);
  if (!config.ok()) return refused<TrainingOutcome>(config.error());
  TrainObserver forward;
  if (observer != nullptr) {
    forward = [&](const TrainEvent& event) { return observer(progress_of(event)); };
  }
  Result<TrainingResult> result = train(*config, forward);
  if (!result.ok()) return refused<TrainingOutcome>(result.error());
  TrainingOutcome outcome;
  outcome.summary_json = std::move(result->summary_json);
  outcome.plan_text = std::move(result->plan_text);
  outcome.already_finished = result->already_finished;
  return outcome;
}

EvaluationOutcome evaluate(const Settings& settings, const Observer& observer) {
  Result<EvaluationOutcome> outcome = run_evaluation(settings, observer);
  return outcome.ok() ? std::move(*outcome) : refused<EvaluationOutcome>(outcome.error());
}

PredictionOutcome predict(const Settings& settings) {
  Result<PredictionOutcome> outcome = run_prediction(settings);
  return outcome.ok() ? std::move(*outcome) : refused<PredictionOutcome>(outcome.error());
}

PlanOutcome plan(const Settings& settings) {
  Result<PlanOutcome> outcome = run_plan(settings);
  return outcome.ok() ? std::move(*outcome) : refused<PlanOutcome>(outcome.error());
}

Info info(const std::string& isa, std::string& error) {
  Info info;
  const Result<Isa> chosen = parse_isa(isa);
  if (!chosen.ok()) {
    error = chosen.error().message;
    return info;
  }
  const kernels::KernelTable table = kernels::select_kernels(*chosen);
  info.version = kVersion;
  info.cpu = cpu_model_name();
  info.isa = isa_name(*chosen);
  info.compiler = __VERSION__;
  info.kernels = {{"convolution", table.convolution->name},
                  {"depthwise", table.depthwise->name},
                  {"elementwise", table.elementwise->name},
                  {"batch_norm", table.batch_norm->name},
                  {"pooling", table.pooling->name},
                  {"softmax", table.softmax->name},
                  {"squared_error", table.squared_error->name},
                  {"update", table.update->name},
                  {"rounding", table.rounding->name}};
  info.formats = {"bfp8",
                  "fp32",
                  "bfp:g=6|8|12|16",
                  "bfp:gr=nearest|stochastic",
                  "bfp:acc=0|2|4|8|16",
                  "bfp:exponents=predicted|exact"};
  return info;
}

}  // namespace mantissa
