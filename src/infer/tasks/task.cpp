#include "infer/tasks/task.h"

#include "infer/tasks/classification.h"
#include "infer/tasks/label_scores.h"
#include "infer/tasks/language.h"
#include "infer/tasks/regression.h"

namespace mantissa {

Result<Task> task_of(const Target& target, const Graph& network, const ModelOptions& options,
                     const std::string& data, Isa isa, std::vector<double> thresholds) {
  switch (target.kind) {
    case TargetKind::kTokens: {
      MANTISSA_ASSIGN(const LanguageOptions language, language_options(network));
      return language_task(language, data);
    }
    case TargetKind::kNumber:
      return regression_task(target, data, options.loss);
    case TargetKind::kClasses:
    case TargetKind::kLabels:
      break;
  }
  return classification_task(
      {options.classes, options.one_logit, options.loss, isa, std::move(thresholds)}, data,
      target.names);
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
