// Networks that read packed sequences: several texts lie one behind the other in a sequence and do not
// see each other (ops/sequences/segments.h).
#pragma once

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// The network with the input kStartTensor, which its attention and rotary positions read. Errors name
// a node that would mix segments, or that knows positions from the beginning of the sequence.
Result<Graph> with_segments(Graph network);

// The same network without it: it reads a text in each sequence.
Graph without_segments(Graph network);

}  // namespace mantissa
