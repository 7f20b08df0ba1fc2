// Networks of language models whose weights stay in blocks (docs/formats.md, 0155).
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// The network whose layers have the weights of these parameters in blocks of a kind; kNone: as they
// were. Only `linear` and `embedding` are asked.
Result<Graph> with_weight_blocks(const Graph& graph,
                                 const std::function<BlockKind(int parameter)>& kind_of);

// "211 of q4_0, 1 of q8_0; 134515008 weights in 96620544 bytes"; "": there are none.
std::string describe_blocks(const Graph& graph);

}  // namespace mantissa
