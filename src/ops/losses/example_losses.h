// Losses that are no sums over rows of logits.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace mantissa::ops {

// Whether a loss compares the examples of a micro-batch with each other.
bool compares_examples(const Node& loss);

// The rows of a loss that an example has: of logits [..., classes], or one if the example has one
// loss as a whole, for a sequence of labels.
int64_t rows_of_example(const Graph& graph, const Node& loss);

}  // namespace mantissa::ops
