#include "run/plan/run_inference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/batches/ordered_batches.h"
#include "infer/freeze.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

// The arena after the frozen network.
Machine behind_frozen(const RunInference& run) {
  const auto front = static_cast<size_t>(run.plan.frozen_bytes());
  return {run.machine.pool, run.machine.arena.subspan(front), run.machine.isa};
}

// How much larger than the plain loss training losses may be: by the temperature of a teacher, or
// the largest weight of targets of 1.
double training_scale(const RunConfig& config, const ModelOptions& options) {
  if (!config.teacher.empty()) {
    const double t = config.temperature;
    return std::max(1.0, 1 - config.teacher_weight + config.teacher_weight * t * t);
  }
  double largest = 1;
  const auto take = [&](const std::vector<int64_t>& weights) {
    for (const int64_t weight : weights) {
      largest = std::max(largest, std::ldexp(static_cast<double>(weight), kWeightExponent));
    }
  };
  take(config.positive_weights);
  for (const ModelOptions& output : options.outputs) take(output.positive_weights);
  return largest;
}

}  // namespace

Result<Task> run_task(const RunConfig& config, const RunPlan& plan, const RunData& data,
                      std::vector<double> thresholds) {
  MANTISSA_ASSIGN(Task task, task_of(data.info.target, plan.network, plan.options, config.data,
                                     config.isa, std::move(thresholds)));
  task.training_scale = training_scale(config, plan.options);
  return task;
}

Result<FrozenNetwork> freeze_run(const RunInference& run, State& state) {
  const RunPlan& plan = run.plan;
  const RunData& data = run.data;
  const FrozenForm form = frozen_form(plan.graph, run.config.format);
  FrozenNetwork frozen{
      {plan.network, plan.options, run.config.format, data.info.target.names, data.info.name,
       state.sha256(StateGroup::kStatistics), form, data.info.table, data.tokenizer},
      frozen_graph_of(run.config, plan),
      State(plan.frozen_layout, run.machine.arena)};
  frozen.description.ignored_label = run.config.table.ignored_label;
  MANTISSA_ASSIGN(OrderedBatches batches,
                  OrderedBatches::create(data.train, run.config.micro_batch_size,
                                         calibration_examples(data.train.count, run.config.seed,
                                                              plan.calibration_examples)));
  MANTISSA_RETURN_IF_ERROR(
      freeze(plan.graph, state, plan.calibration, behind_frozen(run), batches, frozen));
  return frozen;
}

namespace {

Result<Task::Report> validate_frozen(const RunInference& run, const Task& task,
                                     FrozenNetwork& frozen, const EvaluationObserver& observer) {
  Programs programs = inference_programs(frozen, run.plan.validation, behind_frozen(run));
  const EvaluationPrograms& plan = run.plan.validation;
  MANTISSA_ASSIGN(OrderedBatches batches, OrderedBatches::create_by_length(
                                              run.data.validation, plan.batch_size, plan.lengths));
  return task.evaluate(programs, batches, observer);
}

}  // namespace

Result<Score> validate_run(const RunInference& run, const Task& task, State& state,
                           const EvaluationObserver& observer) {
  MANTISSA_ASSIGN(FrozenNetwork frozen, freeze_run(run, state));
  MANTISSA_ASSIGN(const Task::Report report, validate_frozen(run, task, frozen, observer));
  return report.score;
}

Result<std::vector<double>> run_thresholds(const RunInference& run, const Task& task,
                                           FrozenNetwork& frozen,
                                           const EvaluationObserver& observer) {
  const std::optional<double> chosen = run.config.threshold;
  if (chosen == 0.5) return std::vector<double>();
  if (chosen) {
    const double logit = std::log(*chosen / (1 - *chosen));
    return std::vector<double>(threshold_count(run.plan.options), logit);
  }
  MANTISSA_ASSIGN(const Task::Report report, validate_frozen(run, task, frozen, observer));
  return best_thresholds(report);
}

Result<Task::Report> test_run(const RunInference& run, const Task& task, FrozenNetwork& frozen,
                              const EvaluationObserver& observer) {
  Programs programs = inference_programs(frozen, run.plan.evaluation, behind_frozen(run));
  const EvaluationPrograms& plan = run.plan.evaluation;
  MANTISSA_ASSIGN(OrderedBatches batches,
                  OrderedBatches::create_by_length(run.data.test, plan.batch_size, plan.lengths));
  return task.evaluate(programs, batches, observer);
}

}  // namespace mantissa
