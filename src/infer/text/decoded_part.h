// The part of a network that is computed for each new token.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace mantissa {

// The values that this part reads from the rest. In a network that translates, the rest is computed
// from the source alone. `tokens` is the input that grows. Nothing if an operator needs later
// positions or cannot continue from earlier ones.
std::optional<std::vector<int>> values_given_to_decoder(const Graph& network, int tokens);

}  // namespace mantissa
