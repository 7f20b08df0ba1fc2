// Facts about each value of a network that no format changes: its readers, its sign, and the limits
// that its readers set. Found by one pass from the last node to the first, and one back.
// Source: METHODS sections 0.2, 0.5 and 1.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace mantissa {

// By value.
struct ValueFacts {
  std::vector<std::vector<int>> readers;  // nodes
  // Whether the backward pass of a reader reads it, perhaps as a view.
  std::vector<bool> read_backward;
  // Whether all readers take activations, so that it needs no more bits.
  std::vector<bool> only_activations;
  // Whether a sign is needed: it may be negative, and some reader does not take negative mantissas
  // for zeros.
  std::vector<bool> needs_sign;
  // The largest number that readers do not clip, if all of them clip; 0: none.
  std::vector<int> clips_above;
};

ValueFacts value_facts(const Graph& graph);

// Whether the op wants activations: it multiplies mantissas as they are, or reduces them to fewer
// bits, or is left out when frozen.
bool takes_activations(const Op& op);

// Whether the outputs are as wide as the inputs.
bool keeps_bits(const Op& op);

}  // namespace mantissa
