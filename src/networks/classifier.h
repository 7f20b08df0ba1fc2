// Networks that get another number of classes: the layer that makes the output is replaced.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// The network with so many outputs. `layers`: names, with commas between them, of the layers that
// get more or fewer channels for it; "": of the one that makes the output. What lies behind them
// and only passes channels on, batch norms among it, follows. An error where it is not clear which
// layer that is, where another one shares its parameters, or where the output would have another
// number; it names the layers that come into question.
Result<Graph> with_classes(const Graph& network, int64_t classes, const std::string& layers = "");

}  // namespace mantissa
