// Compiling a run, and adding up its memory.
#include "run/plan/run_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/sizes.h"
#include "data/batches/ordered_batches.h"
#include "data/batches/shuffled_batches.h"
#include "infer/freeze.h"
#include "kernels/kernel_table.h"
#include "networks/network.h"
#include "networks/segments.h"
#include "plan/passes/network_format.h"
#include "plan/passes/sliced_loss.h"
#include "plan/retention/compile_training.h"
#include "run/settings/run_lengths.h"
#include "run/settings/run_network.h"
#include "run/step_times.h"
#include "runtime/decided_exponents.h"
#include "runtime/observation.h"
#include "runtime/stages/pipeline.h"

namespace mantissa {
namespace {

// Stacks, allocator and bookkeeping of a run: measured, not planned.
constexpr int64_t kOverheadBytes = int64_t{9} << 19;
// A token's text in the tokenizer, and its copies while the header of a file is put together:
// measured.
constexpr int64_t kTokenBytes = 168;
constexpr int64_t kOneDnnBytes = int64_t{6} << 20;  // the library, and code that it generates

// The moment at which the most bytes are alive, by kind of buffer.
std::vector<MemoryItem> fullest_moment(const Program& program) {
  const std::vector<int64_t> live = live_bytes(program.buffers);
  const auto fullest = std::max_element(live.begin(), live.end()) - live.begin();
  std::array<int64_t, static_cast<size_t>(BufferKind::kCount)> by_kind{};
  for (const Buffer& buffer : program.buffers) {
    if (fullest < buffer.first || fullest > buffer.last) continue;
    by_kind[static_cast<size_t>(buffer.kind)] += buffer.bytes;
  }
  std::vector<MemoryItem> items;
  for (size_t kind = 0; kind < by_kind.size(); ++kind) {
    if (by_kind[kind] == 0) continue;
    items.push_back({std::string(buffer_kind_name(static_cast<BufferKind>(kind))), by_kind[kind]});
  }
  return items;
}

std::vector<MemoryItem> largest_buffers(const Program& program, size_t count) {
  std::vector<MemoryItem> items;
  for (const Buffer& buffer : program.buffers) {
    items.push_back(
        {buffer.name + " (" + std::string(buffer_kind_name(buffer.kind)) + ")", buffer.bytes});
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const MemoryItem& a, const MemoryItem& b) { return a.bytes > b.bytes; });
  items.resize(std::min(count, items.size()));
  return items;
}

// The advice that needs less memory.
std::string advice(const RunConfig& config, const RunPlan& plan) {
  if (config.recompute == RecomputeMode::kNone || config.recompute == RecomputeMode::kLiteral) {
    return "--recompute auto may need less, with the same results";
  }
  if (plan.staged && plan.staged->options.splits_backward()) {
    return "--flush-form 1f1b needs less, with the same results";
  }
  return "no plan for less was found that has the same results; a smaller --micro-batch-size "
         "shrinks the arena, but changes them";
}

MemoryPlan memory_plan(const RunConfig& config, const DatasetInfo& data, const RunPlan& plan) {
  const bool has_lengths = padded_sequence(config) > 0;
  const std::vector<TensorSpec>& specs = data.specs;
  MemoryPlan memory;
  memory.items = {
      {"data set", data.bytes},
      {"weights, accumulators, optimiser", plan.layout.weight_state_bytes()},
      {"other state", plan.layout.bytes - plan.layout.weight_state_bytes()},
      {"arena", plan.arena_bytes()},
      {"batches ahead", ShuffledBatches::predict_bytes(specs, has_lengths, data.train_count,
                                                       config.batch_size, plan.lengths)},
      {"calibration", OrderedBatches::predict_bytes(specs, has_lengths, config.micro_batch_size) +
                          data.train_count * int64_t{sizeof(uint32_t)}},
      {"runtime", kOverheadBytes + config.threads * kOverheadBytesPerThread +
                      (1 + std::ssize(plan.shorter)) * std::ssize(plan.training.instructions) *
                          kOverheadBytesPerInstruction +
                      StepTimes::predict_bytes(plan.total_steps) +
                      (1 + std::ssize(plan.shorter)) * Observations::predict_bytes(plan.training) +
                      decision_bytes(config.format, plan.graph)}};
  if (data.target.kind == TargetKind::kTokens) {
    memory.items.push_back({"texts of the tokens", data.target.classes * kTokenBytes});
  }
  if (config.format.is_float()) memory.items.push_back({"oneDNN", kOneDnnBytes});
  if (!config.format.even_ties) {  // the rescaled form, and the numbers of its layers
    memory.items.push_back({"freezing without ties", 2 * plan.frozen_layout.bytes});
  }
  if (plan.staged) {
    memory.items.push_back({"stages", executor_bytes(plan) + trace_bytes(config, *plan.staged)});
    memory.items.push_back({"passed between stages", PipelineExecutor::passed_bytes(
                                                         plan.graph, plan.training,
                                                         plan.staged->plan, plan.staged->options)});
  }
  if (plan.teacher) memory.items.push_back({"teacher", plan.teacher->bytes()});
  if (config.reestimate > 0) {
    memory.items.push_back({"averaging of statistics", plan.layout.bytes});
  }
  if (config.format.float_steps() > 0) {
    memory.items.push_back(
        {"pre-training in fp32", plan.pretraining_layout.bytes + kOneDnnBytes +
                                     Observations::predict_bytes(plan.pretraining)});
  }
  // Reading pictures ends before the rest is allocated: only the excess counts.
  const int64_t later_bytes = memory.peak_bytes() - data.bytes;
  if (data.loading_bytes > later_bytes) {
    memory.items.push_back({"reading " + std::string(data.nouns.files) + ", beyond that",
                            data.loading_bytes - later_bytes});
  }
  // The arena is not written before the weights are taken.
  if (config.start && config.start->read_bytes > plan.arena_bytes()) {
    memory.items.push_back({"reading trained weights, beyond the arena",
                            config.start->read_bytes - plan.arena_bytes()});
  }
  if (data.validation_count == 0 && plan.validation_examples > 0) {
    int64_t example_bytes = specs[0].bytes() + int64_t{sizeof(Label)};
    for (size_t i = 1; data.has_named_inputs() && i < specs.size(); ++i) {
      example_bytes += specs[i].bytes();
    }
    memory.items.push_back({"validation split", plan.validation_examples * example_bytes});
  }
  memory.advice = advice(config, plan);
  memory.arena = fullest_moment(plan.training);
  memory.consumers = largest_buffers(plan.training, 5);
  return memory;
}

}  // namespace

int64_t RunPlan::arena_bytes() const {
  return std::max({training.arena_bytes, mantissa::arena_bytes(shorter),
                   staged ? mantissa::arena_bytes(staged->plan, 0, staged->here) : 0,
                   pretraining.arena_bytes, inference_bytes()});
}

int64_t RunPlan::frozen_bytes() const { return round_up<int64_t>(frozen_layout.bytes, 64); }

int64_t RunPlan::inference_bytes() const {
  return frozen_bytes() +
         std::max({freeze_bytes(calibration), evaluation.arena_bytes(), validation.arena_bytes()});
}

Graph frozen_graph_of(const RunConfig& config, const RunPlan& plan) {
  const FrozenForm form = frozen_form(plan.graph, config.format);
  return freeze_graph(config.pack ? without_segments(plan.graph) : plan.graph, form);
}

ProgramOptions training_options(const RunConfig& config) {
  return {.kind = ProgramKind::kTraining,
          .micro_batch_size = config.micro_batch_size,
          .micro_batches = static_cast<int>(config.batch_size / config.micro_batch_size),
          .optimizer = config.optimizer,
          .exponents = training_exponents(config.format),
          .clips = config.clip_norm > 0,
          .format = config.format};
}

ProgramOptions calibration_options(const RunConfig& config) {
  return {.kind = ProgramKind::kInference,
          .micro_batch_size = config.micro_batch_size,
          .with_loss = false,
          .exponents = ExponentMode::kCalibrate,
          .format = config.format};
}

int64_t calibration_count(const RunConfig& config, int64_t examples) {
  constexpr int64_t kMost = 1280;
  const int64_t micro_batch = config.micro_batch_size;
  return std::max(micro_batch, std::min(kMost, examples) / micro_batch * micro_batch);
}

namespace {

// How many training examples are held back. At least a batch must be left.
Result<int64_t> held_back_count(const RunConfig& config, const DatasetInfo& data) {
  if (config.validation > 0 && data.validation_count > 0) {
    return invalid_input("validation: " + data.name + " has " +
                         std::to_string(data.validation_count) + " validation " +
                         data.nouns.examples + " of its own, which are used; leave this out");
  }
  const double wanted = config.validation < 1
                            ? std::floor(config.validation * static_cast<double>(data.train_count))
                            : config.validation;
  const auto count = static_cast<int64_t>(wanted);
  if (config.validation > 0 && count < 1) {
    return invalid_input("validation: holds back none of the " + std::to_string(data.train_count) +
                         " training examples of " + data.name);
  }
  if (count > 0 && data.train_count - count < config.batch_size) {
    return invalid_input(
        "validation: of the " + std::to_string(data.train_count) + " training examples of " +
        data.name + " only " + std::to_string(std::max<int64_t>(0, data.train_count - count)) +
        " would be left, less than batch-size " + std::to_string(config.batch_size));
  }
  return count;
}

// Bytes that the memory budget leaves for the arena; without a budget, all. At least a byte.
int64_t left_for_arena(const RunConfig& config, const RunPlan& plan) {
  if (config.memory_budget == 0) return std::numeric_limits<int64_t>::max();
  const int64_t rest = plan.memory.peak_bytes() - plan.arena_bytes();
  return std::max<int64_t>(1, config.memory_budget - rest);
}

// The training program, within the memory that a budget leaves for it, and the memory of the run.
Status plan_training(const RunConfig& config, const DatasetInfo& data,
                     const PlanningContext& planning, RunPlan& plan) {
  const ProgramOptions options = with_slices(plan.graph, training_options(config));
  RecomputeOptions recompute{
      .mode = RecomputeMode::kNone,
      .instruction_bytes = kOverheadBytesPerInstruction + 2 * int64_t{sizeof(int)},
      .least_arena_bytes = plan.inference_bytes(),
      .profile = config.profile};
  const PlanningContext of_stage{planning.kernels, threads_of_stage(config)};
  const auto compile_with = [&]() -> Status {
    MANTISSA_ASSIGN(TrainingProgram training,
                    compile_training(plan.graph, options, of_stage, recompute));
    plan.training = std::move(training.program);
    if (config.format.float_steps() > 0) {
      ProgramOptions floats = options;
      floats.format = {.family = FormatFamily::kFloat};
      floats.exponents = training_exponents(floats.format);
      MANTISSA_ASSIGN(TrainingProgram pretraining,
                      compile_training(plan.graph, floats, planning, recompute));
      plan.pretraining = std::move(pretraining.program);
      plan.pretraining_layout = training_layout(plan.graph, floats.format, config.optimizer);
    }
    MANTISSA_ASSIGN(plan.shorter,
                    shorter_programs(plan.graph, plan.training, plan.lengths, of_stage));
    plan.decisions = std::move(training.decisions);
    plan.memory = memory_plan(config, data, plan);
    return {};
  };
  MANTISSA_RETURN_IF_ERROR(compile_with());
  if (config.pipeline.stages > 1 || config.pipeline.processes > 1) {
    MANTISSA_RETURN_IF_ERROR(divide_training(config, plan));
    plan.memory = memory_plan(config, data, plan);
    MANTISSA_RETURN_IF_ERROR(fit_stages(config, of_stage, left_for_arena(config, plan), plan));
    plan.memory = memory_plan(config, data, plan);
    return {};
  }
  if (config.recompute == RecomputeMode::kNone) return {};
  recompute.mode = config.recompute;
  recompute.planner = config.planner;
  if (config.memory_budget > 0) recompute.limit_bytes = left_for_arena(config, plan);
  return compile_with();
}

Status check_weights(const RunConfig& config, const DatasetInfo& data,
                     const ModelOptions& options) {
  if (!config.class_weights.any()) return {};
  if (!config.table.weights.empty()) {
    return invalid_input("row-weights and class-weights exclude each other: leave one of them out");
  }
  if (data.target.kind != TargetKind::kClasses) {
    return invalid_input("class-weights: are for data with classes; leave it out");
  }
  const int64_t weights = std::ssize(config.class_weights.weights);
  if (config.class_weights.balanced || weights == options.classes) return {};
  return invalid_input("class-weights: there are " + std::to_string(weights) + " weights and " +
                       std::to_string(options.classes) + " classes");
}

Status check_threshold(const RunConfig& config, const RunPlan& plan, int64_t validation_examples) {
  if (config.threshold == 0.5) return {};
  if (label_shape_of_places(plan.network).rank > 0) {
    return invalid_input("threshold: is not for networks that give each place a class");
  }
  if (threshold_count(plan.options) == 0) {
    return invalid_input("threshold: is for two classes, or for labels of --loss sigmoid");
  }
  if (config.threshold || validation_examples > 0) return {};
  return invalid_input("threshold f1: is chosen on validation examples; --validation holds some back");
}

Status build(const RunConfig& config, RunPlan& plan) {
  MANTISSA_ASSIGN(plan.network, build_network(config, plan.options));
  fill_means(plan.channel_means, plan.network);
  Graph trained = plan.network;
  if (!config.teacher.empty()) {
    MANTISSA_RETURN_IF_ERROR(
        ops::add_teacher(trained, config.teacher_weight, config.temperature));
  }
  if (!config.table.weights.empty() || config.class_weights.any()) {
    MANTISSA_RETURN_IF_ERROR(ops::add_row_weights(trained));
  }
  if (config.pack) {
    MANTISSA_ASSIGN(trained, with_segments(std::move(trained)));
  }
  plan.graph = in_format(trained, config.format);
  return choose_trained(config, plan.graph);
}

}  // namespace

Result<RunPlan> plan_run(const RunConfig& config, const DatasetInfo& data) {
  if (config.inserts_batch_norm) {
    return invalid_input(
        "insert-batch-norm: is done by train and by import; the file that import "
        "writes can be planned and quantised");
  }
  if (data.train_count < config.batch_size) {
    return invalid_input("batch-size " + std::to_string(config.batch_size) + " is more than the " +
                         std::to_string(data.train_count) + " training examples of " + data.name);
  }
  const bool has_tokens = data.target.kind == TargetKind::kTokens;
  const int64_t most = has_tokens ? kMostTokens : kMostClasses;
  if (data.target.classes > most) {
    return invalid_input(data.name + ": has " + std::to_string(data.target.classes) +
                         (has_tokens ? " tokens" : " classes") + "; networks have at most " +
                         std::to_string(most));
  }
  MANTISSA_ASSIGN(const int64_t held_back, held_back_count(config, data));
  const int64_t validation_examples = held_back + data.validation_count;
  const int64_t train_count = data.train_count - held_back;
  RunPlan plan;
  MANTISSA_ASSIGN(plan.options, model_options(config, data));
  MANTISSA_RETURN_IF_ERROR(check_weights(config, data, plan.options));
  MANTISSA_RETURN_IF_ERROR(build(config, plan));
  MANTISSA_RETURN_IF_ERROR(check_threshold(config, plan, validation_examples));
  if (config.start) {
    MANTISSA_ASSIGN(plan.taken, match_start(plan.graph, *config.start));
  }
  plan.lengths = batch_lengths(config);
  plan.layout = training_layout(plan.graph, config.format, config.optimizer);
  const kernels::KernelTable table = kernels::select_kernels(config.isa);
  const PlanningContext planning{&table, config.threads};
  if (!config.teacher.empty()) {
    MANTISSA_ASSIGN(plan.teacher, plan_teacher(config, data, plan.options.classes, planning));
  }
  const ProgramOptions calibration = without_sliced_logits(plan.graph, calibration_options(config));
  MANTISSA_ASSIGN(plan.calibration, compile(plan.graph, calibration, planning));
  MANTISSA_RETURN_IF_ERROR(check_form(plan.graph, frozen_form(plan.graph, config.format)));
  const Graph frozen_graph = frozen_graph_of(config, plan);
  plan.frozen_layout = frozen_layout(frozen_graph, config.format);
  const Reads reads = has_tokens ? Reads::kLoss : Reads::kResults;
  MANTISSA_ASSIGN(plan.evaluation,
                  compile_evaluation(frozen_graph, config.format, config.micro_batch_size,
                                     data.test_count, planning, reads, evaluation_lengths(config)));
  plan.validation_examples = validation_examples;
  if (validation_examples > 0) {
    MANTISSA_ASSIGN(
        plan.validation,
        compile_evaluation(frozen_graph, config.format, config.micro_batch_size,
                           validation_examples, planning, reads, evaluation_lengths(config)));
  }
  plan.steps_per_epoch = train_count / config.batch_size;
  plan.total_steps = config.steps > 0 ? config.steps : config.epochs * plan.steps_per_epoch;
  plan.first_flushed_step = plan.total_steps - config.pipeline.sync_last;
  if (plan.first_flushed_step < 0) {
    return invalid_input("sync-last " + std::to_string(config.pipeline.sync_last) +
                         ": the run has " + std::to_string(plan.total_steps) +
                         " steps; --pipeline flush flushes in all of them");
  }
  plan.calibration_examples = calibration_count(config, train_count);
  MANTISSA_RETURN_IF_ERROR(plan_training(config, data, planning, plan));
  return plan;
}

Status set_channel_means(const RunConfig& config, ChannelMeans means, RunPlan& plan) {
  if (means.empty()) return {};
  // Several inputs have means by their names alone.
  if (!plan.options.channel_means.empty()) plan.options.channel_means = means.at(kPixelTensor);
  plan.channel_means = std::move(means);
  return build(config, plan);
}

}  // namespace mantissa
