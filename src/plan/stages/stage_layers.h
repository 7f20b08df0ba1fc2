// The layers of a program for the division among stages: their work, their memory, and the bytes
// that they pass on. Source: AsyncPipeline [0022]; METHODS section 5.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "pipeline/partition.h"
#include "pipeline/simulate.h"
#include "plan/programs/program.h"
#include "plan/programs/state_layout.h"
#include "plan/retention/machine_profile.h"
#include "plan/stages/stages.h"

namespace mantissa {

struct StageLayers {
  std::vector<pipeline::Layer> layers;  // times in nanoseconds, estimated
  std::vector<int> first_node;          // of each layer
};

// Nodes between which a network may be cut, each with the following nodes that must stay with it: a
// batch norm that decides exponents of its input's channels, and nodes that share parameters which
// are written. Each instruction takes `instruction_bytes` outside the arena, for each micro-batch in
// flight.
StageLayers stage_layers(const Graph& graph, const Program& program, const StateLayout& layout,
                         const MachineProfile& profile, int threads, int64_t instruction_bytes = 0);

// The estimated times of each stage, in nanoseconds.
std::vector<pipeline::StageTimes> stage_times(const Graph& graph, const Program& program,
                                              const PipelinePlan& plan,
                                              const MachineProfile& profile, int threads);

// The stage of each node, from the first layer of each stage.
std::vector<int> stage_of_nodes(const StageLayers& layers, std::span<const int> first_layers,
                                int nodes);

}  // namespace mantissa
