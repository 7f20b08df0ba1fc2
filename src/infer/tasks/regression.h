// The task of regression: examples have a number, networks an output for it.
#pragma once

#include <string>

#include "data/datasets/dataset.h"
#include "infer/tasks/task.h"

namespace mantissa {

// The task: each batch has the tensor kTargetTensor, a number of `target`. The loss is in units of
// the variance of training targets. `data` and the target's name go into the report.
Task regression_task(const Target& target, std::string data);

// The number that an output stands for: output * deviation + mean.
double predicted_number(const Tensor& outputs, int64_t example, const Target& target);

}  // namespace mantissa
