// The parts of the eval command.
#pragma once

#include "api/inference/inference_config.h"
#include "api/inference/load_network.h"
#include "data/batches/examples.h"
#include "data/batches/length_buckets.h"
#include "infer/frozen_network.h"
#include "infer/tasks/task.h"
#include "mantissa/mantissa.h"

namespace mantissa {

struct EvaluationConfig : InferenceConfig {
  ModelFileChoices file;
  std::string out;
  int64_t batch_size = 0;
  int64_t beam = 0;
};

// Passes a message on, if it is not empty.
void tell(const Observer& observer, std::string message);

// The configuration of the settings of eval. "out" names a file then, never a folder.
Result<EvaluationConfig> evaluation_config(const Settings& settings);

// Runs the task of a frozen network on examples, padded to these lengths (none: all are whole). The
// results and their time are `result`.
Result<Task::Report> evaluate_task(const EvaluationConfig& config, FrozenNetwork& network,
                                   const Task& task, const Examples& examples,
                                   const BatchLengths& lengths, const Observer& observer,
                                   Evaluation& result);

// Writes the report's JSON to "out" and, with the time, into `result`.
Status write_report(const EvaluationConfig& config, const Task::Report& report, Evaluation& result);

// Evaluates on the test part of a text: of `config.data`, or of the one that it was trained on.
Outcome<Evaluation> evaluate_language(const EvaluationConfig& config, FrozenNetwork& network,
                                      const Observer& observer);

// The same on all of a text in memory, by a network that goes on with texts. Each token but the
// first is predicted. Errors: less than two tokens.
Outcome<Evaluation> evaluate_text(const EvaluationConfig& config, FrozenNetwork& network,
                                  const std::string& text, const Observer& observer);

}  // namespace mantissa
