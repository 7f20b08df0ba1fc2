// Results of linear and convolution that are wider than activations (the format's linear=16): which
// values are, and where they are brought to the width of activations. Source: METHODS section 0.2
// and 0.5.
#pragma once

#include "graph/graph.h"
#include "numerics/format.h"

namespace mantissa {

// Width of a value's mantissas: that of activations; of linear values where something other than
// linear, convolution or dropout reads them, and of what passes these on.
int value_bits(const Graph& graph, const Format& format, int value);

// The network with a `requantise` before each linear, convolution and dropout whose input would be
// wider than activations. Unchanged in formats without wider linear values.
Graph with_requantised_inputs(const Graph& graph, const Format& format);

// Refuses a format that names a width of linear values which none of the network would have.
Status check_linear_values(const Graph& graph, const Format& format);

}  // namespace mantissa
