#include "run/plan/staged_training.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/sizes.h"
#include "pipeline/trace.h"
#include "plan/stages/compile_stages.h"
#include "run/division.h"
#include "run/memory_plan.h"
#include "run/plan/run_plan.h"
#include "runtime/decided_exponents.h"
#include "runtime/observation.h"
#include "runtime/stages/stage_wiring.h"

namespace mantissa {
namespace {

// Measured, like a run's memory for its instructions (memory_plan.h). An executor of a stage holds
// views of the stage's instructions, and room for the program's instructions. A stage has threads
// and their heap.
constexpr int64_t kBytesPerStageInstruction = 2400;
constexpr int64_t kBytesPerProgramInstruction = 850;
constexpr int64_t kBytesPerStage = int64_t{320} << 10;

Result<pipeline::Schedule> schedule_of(const StagedTraining& staged) {
  return pipeline::make_schedule(staged.options);
}

std::vector<int> stages_of(const StagedTraining& staged, const Graph& graph) {
  return stage_of_nodes(staged.layers, staged.division.first, static_cast<int>(graph.nodes.size()));
}

// The traced steps must not be too many.
Status check_trace(const RunConfig& config, const pipeline::Options& options) {
  if (config.trace.empty()) return {};
  const int64_t of_step = pipeline::traced_cells(options, 1);
  if (config.trace_steps <= pipeline::kMostTracedCells / of_step) return {};
  return invalid_input(
      "trace-steps: a trace has at most " + std::to_string(pipeline::kMostTracedCells) +
      " pieces of work, and a step of this pipeline has " + std::to_string(of_step) + ": at most " +
      std::to_string(pipeline::kMostTracedCells / of_step) + " steps");
}

// Within the limit of a stage's memory if everything is kept. If that is impossible and values may
// be computed again, the limit does not count here.
Result<pipeline::Division> divide_layers(const RunConfig& config, const Graph& graph,
                                         const StagedTraining& staged,
                                         const pipeline::Schedule& schedule) {
  const PipelineConfig& way = config.pipeline;
  std::vector<pipeline::Layer> layers = staged.layers.layers;
  std::vector<int> versions = schedule.versions;
  const bool counts_own = way.mode == pipeline::Mode::kAsync;
  for (int& count : versions) count += count > 1 && !counts_own ? 1 : 0;  // the state's own
  if (way.is_asynchronous()) {
    // The scratch of a machine's kernels must not decide results.
    for (pipeline::Layer& layer : layers) layer.work_bytes = 0;
  }
  std::vector<int> first;  // layers by hand
  if (!way.partition) {
    auto found = find_first_layers(graph, staged.layers, way.first_layers);
    if (!found.ok()) return invalid_input("partition: " + found.error().message);
    first = std::move(*found);
  }
  const auto within = [&](const pipeline::Limits& limits) {
    return way.partition
               ? pipeline::divide(layers, *way.partition, schedule.windows, versions, limits)
               : pipeline::divided(layers, pipeline::Balance::kOperations, first, schedule.windows,
                                   versions, limits);
  };
  if (way.stage_memory == 0) return within({});
  Result<pipeline::Division> division = within({.stage_bytes = way.stage_memory});
  const bool computes_again = config.recompute != RecomputeMode::kNone;
  const bool is_over = !division.ok() && division.error().code == ErrorCode::kOverBudget;
  return is_over && computes_again ? within({}) : division;
}

int64_t executor_bytes(const RunPlan& plan, const StagePlan& stage) {
  const auto own = static_cast<int64_t>(stage.instructions().size());
  const auto all = static_cast<int64_t>(plan.training.instructions.size());
  const int64_t each = own * kBytesPerStageInstruction + all * kBytesPerProgramInstruction +
                       decision_bytes(plan.training.options.format, plan.graph);
  return kBytesPerStage + stage.window * each + Observations::predict_bytes(plan.training);
}

int64_t beside_arena(const RunPlan& plan, const std::vector<int>& stage_of, int s) {
  const PipelinePlan& stages = plan.staged->plan;
  int64_t bytes = executor_bytes(plan, stages.stages[s]) + received_bytes(plan.training, stages, s);
  std::vector<bool> counted(plan.graph.parameters.size(), false);
  for (size_t n = 0; n < plan.graph.nodes.size(); ++n) {
    if (stage_of[n] != s) continue;
    for (const int parameter : plan.graph.nodes[n].parameters) {
      if (!counted[parameter]) bytes += state_bytes(plan.layout, parameter);
      counted[parameter] = true;
    }
  }
  return bytes;
}

void add_up(RunPlan& plan) {
  StagedTraining& staged = *plan.staged;
  const std::vector<int> stage_of = stages_of(staged, plan.graph);
  staged.bytes.clear();
  for (size_t s = 0; s < staged.plan.stages.size(); ++s) {
    staged.bytes.push_back(staged.plan.stages[s].arena_bytes() +
                           beside_arena(plan, stage_of, static_cast<int>(s)));
  }
}

Status check_stages(const RunConfig& config, const RunPlan& plan) {
  const int64_t most = config.pipeline.stage_memory;
  for (size_t s = 0; s < plan.staged->bytes.size() && most > 0; ++s) {
    const int64_t bytes = plan.staged->bytes[s];
    if (bytes <= most) continue;
    const bool keeps =
        config.recompute == RecomputeMode::kNone || config.recompute == RecomputeMode::kLiteral;
    return make_error(
        ErrorCode::kOverBudget,
        "stage " + std::to_string(s + 1) + " needs " + format_bytes(bytes) + " of memory (" +
            std::to_string(bytes) + " bytes), over the stage-memory of " + format_bytes(most) +
            "; arena " + format_bytes(plan.staged->plan.stages[s].arena_bytes()) + " with " +
            std::to_string(plan.staged->plan.stages[s].window) + " micro-batches in flight; " +
            (keeps ? "--recompute auto may need less, with the same results"
             : plan.staged->options.splits_backward()
                 ? "--flush-form 1f1b needs less, with the same results"
                 : "more stages, or smaller micro-batches, may need less"));
  }
  return {};
}

}  // namespace

std::vector<std::vector<std::string>> StagedTraining::layer_names() const {
  std::vector<std::vector<std::string>> names(division.first.size());
  size_t s = 0;
  for (size_t i = 0; i < layers.layers.size(); ++i) {
    if (s + 1 < division.first.size() && static_cast<int>(i) >= division.first[s + 1]) ++s;
    names[s].push_back(layers.layers[i].name);
  }
  return names;
}

int threads_of_stage(const RunConfig& config) {
  if (config.pipeline.processes > 1) return config.threads;
  return std::max(1, config.threads / static_cast<int>(config.pipeline.stages));
}

int64_t decision_bytes(const Format& format, const Graph& graph) {
  if (!format.is_dynamic()) return 0;
  return DecidedExponents::predict_bytes(predictor_slots(graph, format), format);
}

int64_t trace_bytes(const RunConfig& config, const StagedTraining& staged) {
  constexpr int64_t kOfCell = sizeof(pipeline::TracedCell) + 256;  // with its text
  if (config.trace.empty()) return 0;
  return pipeline::traced_cells(staged.options, config.trace_steps) * kOfCell;
}

int64_t executor_bytes(const RunPlan& plan) {
  int64_t bytes = 0;
  for (int s = 0; s < plan.staged->here; ++s) {
    bytes += executor_bytes(plan, plan.staged->plan.stages[s]);
  }
  return bytes;
}

Status divide_training(const RunConfig& config, RunPlan& plan) {
  const PipelineConfig& way = config.pipeline;
  StagedTraining staged;
  staged.threads = threads_of_stage(config);
  staged.here = way.processes > 1 ? 1 : static_cast<int>(way.stages);
  const int micro_batches = plan.training.options.micro_batches;
  if (micro_batches % way.replicas != 0) {
    return invalid_input("replicas " + std::to_string(way.replicas) + " do not share " +
                         std::to_string(micro_batches) +
                         " micro-batches evenly: --accumulate says how many a batch has");
  }
  staged.options = {.mode = way.mode,
                    .form = way.form,
                    .windows = way.windows,
                    .stages = static_cast<int>(way.stages),
                    .accumulate = static_cast<int>(micro_batches / way.replicas),
                    // Enough to fill all windows.
                    .updates = 2 * static_cast<int>(way.stages),
                    .predicts_weights = way.predicts_weights,
                    .stage_warmup = way.stage_warmup};
  MANTISSA_RETURN_IF_ERROR(check_trace(config, staged.options));
  MANTISSA_ASSIGN(const pipeline::Schedule schedule, schedule_of(staged));
  staged.layers =
      stage_layers(plan.graph, plan.training, plan.layout, config.profile, staged.threads,
                   kBytesPerStageInstruction + way.stages * kBytesPerProgramInstruction);
  MANTISSA_ASSIGN(staged.division, divide_layers(config, plan.graph, staged, schedule));
  MANTISSA_ASSIGN(staged.plan, plan_stages(plan.graph, plan.training, plan.layout,
                                           stages_of(staged, plan.graph), schedule));
  plan.staged = std::move(staged);
  return {};
}

Status fit_stages(const RunConfig& config, const PlanningContext& planning, int64_t arena_bytes,
                  RunPlan& plan) {
  StagedTraining& staged = *plan.staged;
  MANTISSA_ASSIGN(const pipeline::Schedule schedule, schedule_of(staged));
  const std::vector<int> stage_of = stages_of(staged, plan.graph);
  int64_t in_flight = 0;
  for (const StagePlan& stage : staged.plan.stages) in_flight += stage.window;
  StageLimits limits{.all_bytes = arena_bytes,
                     .instruction_bytes = kOverheadBytesPerInstruction +
                                          in_flight * kBytesPerProgramInstruction +
                                          (1 + config.pipeline.stages) * int64_t{sizeof(int)} * 2,
                     .micro_batch_bytes = kBytesPerStageInstruction};
  for (int s = 0; s < config.pipeline.stages && config.pipeline.stage_memory > 0; ++s) {
    limits.bytes.push_back(config.pipeline.stage_memory - beside_arena(plan, stage_of, s));
  }
  // Processes have a stage each. The budget is for the first, which has more beside its arena.
  if (staged.here < config.pipeline.stages && arena_bytes != StageLimits::kNone) {
    limits.all_bytes = StageLimits::kNone;
    limits.bytes.resize(static_cast<size_t>(config.pipeline.stages), arena_bytes);
    for (int64_t& bytes : limits.bytes) bytes = std::min(bytes, arena_bytes);
  }
  MANTISSA_ASSIGN(StagesProgram made,
                  compile_stages(plan.graph, plan.training, planning,
                                 {.mode = config.recompute, .profile = config.profile}, plan.layout,
                                 stage_of, schedule, limits));
  plan.training = std::move(made.program);
  plan.decisions = std::move(made.decisions);
  staged.plan = std::move(made.plan);
  add_up(plan);
  return check_stages(config, plan);
}

}  // namespace mantissa
