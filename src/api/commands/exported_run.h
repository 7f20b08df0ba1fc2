// A run's folder, for the training that is exported as C, and comes back.
#pragma once

#include <string>

#include "api/outcome.h"
#include "base/result.h"
#include "mantissa/runs.h"
#include "run/plan/run_data.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"

namespace mantissa {

// The plan and the data of a run, as its folder has them.
struct ExportedRun {
  RunConfig config;
  RunPlan plan;
  std::string identity;
};

// `folder`: of the run, or a file in it.
Result<ExportedRun> read_run(const std::string& folder);

// An error for a network with several outputs, or with labels in an order, before a file is
// written. `path` begins it.
Status check_has_one_answer(const std::string& path, const ModelOptions& options);

// Whether a file is a state that an exported program saved.
bool is_saved_state(const std::string& path);

// Makes a run's folder of the state that an exported program of `run` saved: it can be resumed.
Outcome<ImportedModel> import_state(const std::string& path, const std::string& run,
                                    const std::string& out);

}  // namespace mantissa
