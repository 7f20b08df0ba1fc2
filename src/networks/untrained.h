// Parameters that a run does not change: `train --freeze` (docs/networks.md).
#pragma once

#include <string>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// Marks parameters as not trained: those whose names fit one of the patterns, which commas
// separate; * stands for any text, "" for no pattern. Running statistics do not count as parameters
// here. Errors: a pattern that no trained parameter fits, a node of which only some parameters fit,
// and a network with nothing left to train.
Status leave_untrained(const std::string& patterns, Graph& graph);

}  // namespace mantissa
