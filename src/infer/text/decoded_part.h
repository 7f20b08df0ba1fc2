// The part of a network that is computed for each new token.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace mantissa {

// The values that this part reads of the rest: of a network that translates, what it computes of
// the source alone. `tokens` is the input that grows. Nothing if an operator needs later positions
// or does not know how to go on from earlier ones.
std::optional<std::vector<int>> values_given_to_decoder(const Graph& network, int tokens);

}  // namespace mantissa
