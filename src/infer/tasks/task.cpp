#include "infer/tasks/task.h"

#include <utility>

#include "infer/tasks/classification.h"
#include "infer/tasks/label_scores.h"
#include "infer/tasks/label_sequences.h"
#include "infer/tasks/language.h"
#include "infer/tasks/regression.h"
#include "infer/tasks/several_outputs.h"
#include "ops/losses/loss_weight.h"

namespace mantissa {

namespace {

Task task_of_output(const Target& target, const ModelOptions& options, const std::string& data,
                    Isa isa, std::vector<double> thresholds, const OutputPlace& place) {
  if (target.is_number()) return regression_task(target, data, options.loss, place);
  return classification_task({.classes = options.classes,
                              .one_logit = options.one_logit,
                              .loss = options.loss,
                              .isa = isa,
                              .thresholds = std::move(thresholds),
                              .place = place},
                             data, target.names);
}

}  // namespace

double summed_loss(const ModelOptions& options, int64_t loss_q24) {
  if (options.outputs.empty()) return ops::loss_value(options.loss, loss_q24);
  return static_cast<double>(loss_q24) * 0x1p-24;
}

Result<Task::Report> Task::evaluate(Programs& programs, BatchSource& batches,
                                    const EvaluationObserver& observer) const {
  const Measurement measurement = begin();
  const auto add = [&](const Batch& batch, const StepResult& step) {
    measurement.add(programs, batch, step);
  };
  MANTISSA_RETURN_IF_ERROR(evaluate_all(programs, batches, observer, add));
  return measurement.report();
}

Result<Task> task_of(const Target& target, const Graph& network, const ModelOptions& options,
                     const std::string& data, Isa isa, std::vector<double> thresholds) {
  switch (target.kind) {
    case TargetKind::kTokens: {
      MANTISSA_ASSIGN(const LanguageOptions language, language_options(network));
      return language_task(language, data);
    }
    case TargetKind::kNumber:
    case TargetKind::kClasses:
    case TargetKind::kLabels:
      return task_of_output(target, options, data, isa, std::move(thresholds), {});
    case TargetKind::kSequence:
      return sequence_task(network, options, data);
    case TargetKind::kSeveral:
      break;
  }
  std::vector<OutputTask> outputs;
  auto next = thresholds.begin();
  for (size_t i = 0; i < options.outputs.size(); ++i) {
    const ModelOptions& output = options.outputs[i];
    std::vector<double> own;
    if (!thresholds.empty()) {
      own.assign(next, next + static_cast<int64_t>(threshold_count(output)));
      next += std::ssize(own);
    }
    const OutputPlace place = {static_cast<int>(i), output.result, output.labels};
    outputs.push_back({output.labels,
                       task_of_output(target.parts[i], output, data, isa, std::move(own), place),
                       ops::loss_weight(network.nodes[network.losses[i]].attributes)});
  }
  return several_outputs_task(std::move(outputs), data);
}

std::vector<double> best_thresholds(const Task::Report& report) {
  std::vector<double> thresholds;
  for (const auto& scored : report.scored) thresholds.push_back(best_threshold(scored));
  return thresholds;
}

Status evaluate_all(Programs& programs, BatchSource& batches, const EvaluationObserver& observer,
                    const std::function<void(const Batch&, const StepResult&)>& add) {
  int64_t done = 0;
  return infer_all(programs, batches, [&](const Batch& batch, const StepResult& step) -> Status {
    add(batch, step);
    done += batch.count;
    if (observer == nullptr || observer(done)) return {};
    return make_error(ErrorCode::kInterrupted, "interrupted while evaluating");
  });
}

}  // namespace mantissa
