// The export command's C: sources for machines without an operating system (docs/device.md).
#pragma once

#include <cstdint>
#include <string>

#include "api/outcome.h"
#include "base/result.h"
#include "mantissa/runs.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"

namespace mantissa {

struct CExport {
  std::string checkpoint;
  std::string prefix;  // of C names
  std::string out;     // the folder
  bool from_initial = false;
  int64_t memory_budget = 0;  // of state and arena in training; 0: none
};

// The frozen network of a run.
Outcome<ExportedModel> export_to_c(const CExport& request);
// The training of a run, from its newest checkpoint or its initial weights.
Outcome<ExportedModel> export_training_to_c(const CExport& request);

// Bytes that a run's network needs as C, before it is trained: lines for people. What C lacks is
// said in place of them.
Result<std::string> memory_as_c(const RunConfig& config, const RunPlan& plan);

}  // namespace mantissa
