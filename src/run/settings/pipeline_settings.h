// The settings of a run's division into stages and replicas.
#pragma once

#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

// Takes the division from settings, or from the nodes of the network's file, and chooses the rest of
// it. Errors: settings that do not go together.
Status resolve_pipeline(RunConfig& config);

}  // namespace mantissa
