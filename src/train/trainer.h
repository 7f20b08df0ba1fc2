// Training from configuration to frozen network: the parts of a run, one after the other.
#pragma once

#include <string>

#include "base/result.h"
#include "run/progress.h"
#include "run/settings/run_config.h"

namespace mantissa {

class MpiTransport;

struct TrainingResult {
  std::string summary_json;
  std::string plan_text;
  bool already_finished = false;
};

// Runs or resumes training as configured. kInterrupted if the observer stopped it: then a
// checkpoint has been written, unless the run had not begun, which leaves everything unchanged.
// Errors do not change saved files.
// `transport`: to the other processes that work on the run (train/worker.h), of which this is the
// first.
Result<TrainingResult> train(const RunConfig& config, const TrainObserver& observer,
                             MpiTransport* transport = nullptr);

}  // namespace mantissa
