// The parts of the eval command.
#pragma once

#include "api/settings/settings.h"
#include "data/batches/examples.h"
#include "infer/frozen_network.h"
#include "infer/tasks/task.h"
#include "mantissa/mantissa.h"

namespace mantissa {

// Passes a message on, if it is not empty.
void tell(const Observer& observer, std::string message);

// What the task of a frozen network says about examples, the results and their time in `outcome`.
Result<Task::Report> evaluate_task(const InferenceConfig& config, FrozenNetwork& network,
                                   const Task& task, const Examples& examples,
                                   const Observer& observer, EvaluationOutcome& outcome);

// Writes the report's JSON to "out" and, with the time, into `outcome`.
Status write_report(const InferenceConfig& config, const Task::Report& report,
                    EvaluationOutcome& outcome);

// Evaluates on the test part of a text: of `config.data`, or of the one that it was trained on.
Result<EvaluationOutcome> evaluate_language(const InferenceConfig& config, FrozenNetwork& network,
                                            const Observer& observer);

}  // namespace mantissa
