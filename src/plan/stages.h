// A program divided among the stages of a pipeline: each stage's instructions, its part of the
// arena, and what stages pass on. Source: AsyncPipeline [0029]-[0036]; METHODS section 5.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "plan/program.h"

namespace mantissa {

// A buffer that one stage writes and another reads, for each micro-batch.
struct Transfer {
  int from = -1, to = -1;      // stages
  int buffer = -1;             // of the program
  bool backward = false;       // written by the backward pass, else by the forward pass
  std::vector<int> exponents;  // rows of the program's table that go with it
};

// Instructions are those of the program, by their index.
struct StagePlan {
  std::vector<int> forward, backward;  // of each micro-batch
  std::vector<int> update;             // once in a step
  int window = 1;                      // micro-batches in flight
  // The arena of the stage: one part for all micro-batches, then one for each in flight.
  int64_t shared_bytes = 0, instance_bytes = 0;
  // By buffer of the program: its place in the stage's arena, for the first micro-batch; −1: the
  // stage does not use it.
  std::vector<int64_t> offsets;
  std::vector<bool> per_instance;  // by buffer: each micro-batch in flight has its own

  int64_t arena_bytes() const { return shared_bytes + window * instance_bytes; }
};

struct PipelinePlan {
  std::vector<StagePlan> stages;
  std::vector<Transfer> transfers;
};

// `program` trains the graph; `stage_of` has a stage for each node, ascending, and `windows` one
// element for each stage. Errors: nodes of several stages share a parameter, gradients are clipped
// by their common norm, or a value would be computed again in another stage.
Result<PipelinePlan> plan_stages(const Graph& graph, const Program& program,
                                 std::span<const int> stage_of, std::span<const int> windows);

// The program as a stage runs it for the micro-batches of one instance: buffers have their places
// in the stage's arena.
Program stage_program(const Program& program, const StagePlan& stage, int instance);

}  // namespace mantissa
