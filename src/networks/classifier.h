// Networks that get another number of classes: the layer that makes the output is replaced.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// The network with this many outputs. `layers`: names, with commas between them, of the layers that
// get more or fewer channels for it; "": the layer that makes the output. Nodes after them that
// only pass channels on, such as batch norms, follow. An error if it is not clear which layer that
// is, if another one shares its parameters, or if the output would have another number. The error
// names the candidates.
Result<Graph> with_classes(const Graph& network, int64_t classes, const std::string& layers = "");

}  // namespace mantissa
