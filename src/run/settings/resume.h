// Whether a run goes on with the one that its folder holds.
#pragma once

#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

// By config.toml: an error names the settings that differ and affect results, with both values.
// Without that file only the identities in saved files can tell.
Status check_same_settings(const RunConfig& config);

}  // namespace mantissa
