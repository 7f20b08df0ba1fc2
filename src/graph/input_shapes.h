// The same network for examples of another size.
#pragma once

#include <span>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// The network with inputs of these shapes, as many as it has, and all values of the shapes that
// follow. Errors: a node that does not take them, or whose parameters would be others.
Result<Graph> with_input_shapes(Graph graph, std::span<const Shape> shapes);

}  // namespace mantissa
