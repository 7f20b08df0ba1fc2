// Labels in an order, without places, as a network's loss needs them.
#pragma once

#include <string>

#include "base/result.h"
#include "data/batches/example_set.h"
#include "graph/graph.h"

namespace mantissa {

// An error for an example whose labels the network's loss cannot learn: a label that is its blank
// or no class, one behind -1, or more labels than the positions of its sequence can spell. Networks
// with another loss take all. `subject`: "NAME: training", in front of the example.
Status check_label_sequences(const Graph& network, const ExampleSet& set,
                             const std::string& subject);

}  // namespace mantissa
