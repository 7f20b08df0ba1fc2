#include "infer/tasks/task.h"

#include "infer/tasks/classification.h"
#include "infer/tasks/language.h"
#include "infer/tasks/regression.h"

namespace mantissa {

Result<Task> task_of(const Target& target, const Graph& network, const ModelOptions& options,
                     const std::string& data, Isa isa) {
  switch (target.kind) {
    case TargetKind::kTokens: {
      MANTISSA_ASSIGN(const LanguageOptions language, language_options(network));
      return language_task(language, data);
    }
    case TargetKind::kNumber:
      return regression_task(target, data);
    case TargetKind::kClasses:
      break;
  }
  return classification_task({options.classes, options.one_logit, options.loss, isa}, data,
                             target.names);
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
