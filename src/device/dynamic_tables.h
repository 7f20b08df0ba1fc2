// Tables of dynamic fixed point for an exported training program (training/dynamic.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/programs/program.h"

namespace mantissa::device {

// The rules of all predictors; those that the program does not write have no bits.
std::string rules_of(const Graph& graph, const Program& program, int64_t predictors);

// The places of predictors in a DevNeeded, and behind the last their end. None: the warm-up needs
// none.
std::vector<int64_t> needed_places(const Graph& graph, const Program& program);

}  // namespace mantissa::device
