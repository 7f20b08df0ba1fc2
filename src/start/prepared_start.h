// Runs that start from a network that is made first, out of the trained one.
#pragma once

#include <functional>

#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

// Makes the folder of a run: `write` puts network.json and start.safetensors there, which `config`
// names from then on. If a resumed run has them, they stay. If it fails, it removes a folder that
// it made.
Status begin_prepared(RunConfig& config, const std::function<Status()>& write);

}  // namespace mantissa
