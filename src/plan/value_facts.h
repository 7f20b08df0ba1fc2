// Facts about each value of a network in a format: widths, the largest exponent, its readers. Found
// by one pass from the last node to the first, and one back.
// Source: METHODS sections 0.2, 0.5 and 1; format keys `a`, `linear` and `unsigned`.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "numerics/format.h"

namespace mantissa {

// By value.
struct ValueFacts {
  std::vector<std::vector<int>> readers;  // nodes
  // Whether the backward pass of a reader reads it, perhaps as a view.
  std::vector<bool> read_backward;
  // Bits where it is requantised for activations: one more in place of the sign of what is never
  // negative, or whose negative mantissas all readers take for zeros (`unsigned`).
  std::vector<int> activation_bits;
  // Bits of its mantissas. What linear and convolution compute, and what is made of it without
  // requantising, may have more than activations (`linear`).
  std::vector<int> bits;
  // The largest exponent that it needs: that of what its readers clip, if all of them do.
  std::vector<int> exponent_limit;
};

ValueFacts value_facts(const Graph& graph, const Format& format);

// Whether the op wants activations: it multiplies mantissas as they are, or is left out when
// frozen.
bool takes_activations(const Op& op);

}  // namespace mantissa
