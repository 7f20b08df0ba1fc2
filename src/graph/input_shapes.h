// The same network for examples of another size.
#pragma once

#include <span>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// The network with inputs of these shapes, as many as it has; the shapes of all values follow.
// Errors: a node that does not take these shapes, or whose parameters would change.
Result<Graph> with_input_shapes(Graph graph, std::span<const Shape> shapes);

}  // namespace mantissa
