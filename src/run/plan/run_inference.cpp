#include "run/plan/run_inference.h"

#include <utility>

#include "data/batches/ordered_batches.h"
#include "infer/freeze.h"
#include "infer/tasks/classification.h"
#include "infer/tasks/language.h"
#include "infer/tasks/regression.h"

namespace mantissa {
namespace {

// The arena after the frozen network.
Machine behind_frozen(const RunInference& run) {
  const auto front = static_cast<size_t>(run.plan.frozen_bytes());
  return {run.machine.pool, run.machine.arena.subspan(front), run.machine.isa};
}

std::string tokenizer_of(const RunData& data) {
  const WordPiece* wordpiece = data.text ? data.text->vocabulary.wordpiece() : nullptr;
  return wordpiece == nullptr ? "" : to_json(*wordpiece);
}

}  // namespace

Task run_task(const RunConfig& config, const RunPlan& plan, const RunData& data) {
  if (data.text)
    return language_task({data.text_options.sequence, plan.graph.classes(), data.text_options.task},
                         config.data);
  if (data.table && data.table->is_regression()) {
    return regression_task(data.table->target, config.data);
  }
  const ModelOptions& options = plan.options;
  return classification_task({options.classes, options.one_logit, options.loss, config.isa},
                             config.data, data.class_names);
}

Result<FrozenNetwork> freeze_run(const RunInference& run, State& state) {
  const RunPlan& plan = run.plan;
  const FrozenForm form = frozen_form(plan.graph, run.config.format);
  FrozenNetwork frozen{
      {plan.network, plan.options, run.config.format, run.data.class_names, run.data.name,
       state.sha256(StateGroup::kStatistics), form, run.data.table, tokenizer_of(run.data)},
      freeze_graph(plan.graph, form),
      State(plan.frozen_layout, run.machine.arena)};
  MANTISSA_ASSIGN(
      OrderedBatches batches,
      OrderedBatches::create(run.data.training_examples(), run.config.micro_batch_size,
                             calibration_examples(run.data.training_examples().count,
                                                  run.config.seed, plan.calibration_examples)));
  MANTISSA_RETURN_IF_ERROR(
      freeze(plan.graph, state, plan.calibration, behind_frozen(run), batches, frozen));
  return frozen;
}

Result<Score> validate_run(const RunInference& run, const Task& task, State& state,
                           const EvaluationObserver& observer) {
  MANTISSA_ASSIGN(FrozenNetwork frozen, freeze_run(run, state));
  Programs programs = inference_programs(frozen, run.plan.validation, behind_frozen(run));
  const EvaluationPrograms& plan = run.plan.validation;
  MANTISSA_ASSIGN(OrderedBatches batches,
                  OrderedBatches::create_by_length(run.data.validation_examples(), plan.batch_size,
                                                   plan.lengths));
  return task.measure(programs, batches, observer);
}

Result<Task::Report> test_run(const RunInference& run, const Task& task, FrozenNetwork& frozen,
                              const EvaluationObserver& observer) {
  Programs programs = inference_programs(frozen, run.plan.evaluation, behind_frozen(run));
  const EvaluationPrograms& plan = run.plan.evaluation;
  MANTISSA_ASSIGN(
      OrderedBatches batches,
      OrderedBatches::create_by_length(run.data.test_examples(), plan.batch_size, plan.lengths));
  return task.report(programs, batches, frozen.state.sha256(StateGroup::kPredictor), observer);
}

}  // namespace mantissa
