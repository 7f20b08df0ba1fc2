// The task of a network with several outputs: each has a task of its own.
#pragma once

#include <string>
#include <vector>

#include "infer/tasks/task.h"

namespace mantissa {

struct OutputTask {
  std::string name;  // of the output
  Task task;
  double weight = 1;  // of its loss
};

// Measures all outputs in one pass. The loss is the sum of their weighted losses; nothing counts as
// correct. `data` goes into the report.
Task several_outputs_task(std::vector<OutputTask> outputs, std::string data);

}  // namespace mantissa
