// Changes of a network for a format: where a value is narrowed before it is read, and which batch
// norms are inverted. Format keys `linear` and `inversion`. Source: METHODS sections 1 and 4.
#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "numerics/format.h"

namespace mantissa {

// The network as the format wants it, which may be the same:
// - with an operator `requantise` before each linear, convolution or dropout that would otherwise
//   read more bits than activations have;
// - under `inversion`, with an inverted batch norm wherever a ReLU alone reads its output, which
//   becomes a `norm_relu`; wherever a reader needs that output in the backward pass; and wherever
//   that output is bytes and the input is not. Except those whose scale starts at zero.
Graph in_format(const Graph& graph, const Format& format);

// An error if the format asks for wider linear values and the network has none.
Status check_linear_values(const Graph& graph, const Format& format);

// An error if the format asks for inverted batch norms and the network, of in_format, has none.
Status check_inversion(const Graph& graph, const Format& format);

}  // namespace mantissa
