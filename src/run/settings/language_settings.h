// The settings of language models.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

// Language models read a text, in sequences; their optimizer is Adam unless another is named. Errors:
// settings of texts for another network, another length, vocabulary or loss than the network has.
Status take_language(const std::map<std::string, std::string>& settings, RunConfig& config);

}  // namespace mantissa
