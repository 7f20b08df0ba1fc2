// The widths of values, and where one is narrowed before it is read: what the format keys `a`,
// `linear` and `unsigned` ask for. Source: METHODS section 0.2, 0.5 and 1.
#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "numerics/format.h"

namespace mantissa {

// Bits of a value's mantissas. What linear and convolution compute, and what is made of it without
// requantising, may have more than activations (`linear`); what is never negative, or whose
// negative mantissas all readers take for zeros, has one more in place of the sign (`unsigned`).
int value_bits(const Graph& graph, const Format& format, int value);

// The network with an operator `requantise` before each linear, convolution or dropout that would
// otherwise read more bits than activations have; the same network where all values are as wide.
Graph with_requantised_inputs(const Graph& graph, const Format& format);

// An error where the format asks for wider linear values and the network has none.
Status check_linear_values(const Graph& graph, const Format& format);

}  // namespace mantissa
