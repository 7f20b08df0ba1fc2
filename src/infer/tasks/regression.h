// The task of regression: examples have a number, networks an output for it.
#pragma once

#include <string>

#include "base/result.h"
#include "data/batches/batch.h"
#include "data/datasets/dataset.h"
#include "infer/tasks/task.h"

namespace mantissa {

// How far outputs are from the targets, in the targets' own unit. `loss` is in units of the
// variance of training targets.
struct RegressionEvaluation {
  int64_t examples = 0;
  int64_t loss_q24 = 0;  // sum, as StepTotals counts it
  double loss = 0;       // mean
  RegressionScore score;
};

// Runs all batches through programs with a loss; each has the tensor kTargetTensor, a number of
// `target`. kInterrupted if the observer stopped it.
Result<RegressionEvaluation> evaluate_regression(Programs& programs, BatchSource& batches,
                                                 const Target& target,
                                                 const EvaluationObserver& observer = nullptr);

std::string to_json(const RegressionEvaluation& evaluation, const std::string& data,
                    const Target& target, const std::string& model_sha256,
                    std::optional<double> seconds = std::nullopt);

// The task. `data` and the target's name go into the report.
Task regression_task(const Target& target, std::string data);

// The number that an output stands for: output * deviation + mean.
double predicted_number(const Tensor& outputs, int64_t example, const Target& target);

}  // namespace mantissa
