// The network that a run plans, trains and freezes.
#pragma once

#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "models/models.h"
#include "numerics/format.h"

namespace mantissa {

// Builds a model as the number format wants it (plan/network_format.h). Errors as build_model.
Result<Graph> build_network(std::string_view model, const ModelOptions& options,
                            const Format& format);

}  // namespace mantissa
