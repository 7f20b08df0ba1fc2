// Programs for batches whose sequences are shorter than the network's (docs/translation.md).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "data/batches/length_buckets.h"
#include "graph/graph.h"
#include "plan/programs/program.h"

namespace mantissa {

// An error unless a network from a file can be brought to all these lengths. If it labels texts, it
// must give them the same labels then.
Status check_lengths(const Graph& network, bool labels_texts, const BatchLengths& lengths);

// The network with inputs of `length` tokens instead of `whole`. The same nodes, values and
// parameters. Errors of with_input_shapes.
Result<Graph> with_length(const Graph& network, int64_t whole, int64_t length);

// A program over the graph of such a length.
struct LengthProgram {
  Graph graph;
  Program program;
};

// Training programs for all lengths but the last, which `training` is for: with the same options,
// over the same state.
Result<std::vector<LengthProgram>> shorter_programs(const Graph& graph, const Program& training,
                                                    const BatchLengths& lengths,
                                                    const PlanningContext& planning);

// For each tensor that is observed in a step of one program, in its order, the place of the same
// tensor in a step of the other. Empty if the other program writes other tensors.
std::vector<int> places_of_tensors(const Program& whole, const Program& shorter);

// The largest arena among them.
int64_t arena_bytes(const std::vector<LengthProgram>& programs);

}  // namespace mantissa
