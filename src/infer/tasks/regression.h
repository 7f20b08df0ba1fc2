// The task of regression: examples have a number, networks an output for it.
#pragma once

#include <string>

#include "data/datasets/dataset.h"
#include "infer/tasks/task.h"

namespace mantissa {

// The task: each batch has the tensor of the numbers of `target`. The loss, one of
// those for numbers, is of standardised targets. `data` and the targets' names go into the report.
Task regression_task(const Target& target, std::string data, ops::LossKind loss,
                     const OutputPlace& place = {});

// "a, b": the names of the numbers.
std::string target_names(const Target& target);

// The number that the i-th of all outputs stands for: output * deviation + mean. Of a network
// without known means the output.
double predicted_number(const Tensor& outputs, int64_t i, const Target& target);

}  // namespace mantissa
