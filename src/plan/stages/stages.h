// A program divided among the stages of a pipeline: each stage's instructions, its part of the
// arena, and the transfers between stages. Source: AsyncPipeline [0029]-[0036]; METHODS section 5.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "pipeline/schedule.h"
#include "plan/programs/program.h"

namespace mantissa {

// A buffer that one stage writes and another reads, for each micro-batch.
struct Transfer {
  int from = -1, to = -1;      // stages
  int buffer = -1;             // of the program
  bool backward = false;       // written by the backward pass, else by the forward pass
  std::vector<int> exponents;  // rows of the program's table that go with it
};

// How many copies of a buffer a stage holds.
enum class Copies : uint8_t {
  kOne,          // one for all micro-batches
  kPerInstance,  // one for each micro-batch in flight
  kPerUpdate,    // one for each update that micro-batches in flight belong to
};

// A parameter's place in a version of the weights.
struct VersionedParameter {
  int parameter = -1;
  int update = -1;                       // the instruction that updates it; -1: none does
  int64_t mantissas = 0, exponents = 0;  // offsets
};

// Instructions are given by their index in the program.
struct StagePlan {
  // Run for each micro-batch. grad_weights is apart if the schedule wants it, else part of
  // grad_input.
  std::vector<int> forward, grad_input, grad_weights;
  std::vector<int> update;  // once in a step: of parameters, then of statistics
  // For asynchronous modes in which an update has several micro-batches. The last of them runs
  // last_grad_input in place of grad_input: the update of each layer comes right after the
  // gradients of that layer (AsyncPipeline [0002], [0040]). end_of_update is then the rest of
  // `update`. Both are empty if stages update all their layers at once, as in kFlush.
  std::vector<int> last_grad_input, end_of_update;
  int window = 1;             // micro-batches in flight
  int updates_in_flight = 1;  // the most updates that these belong to
  // Versions of the weights besides the state's own, and the instructions that read them. An
  // asynchronous stage needs them for weights that are predicted, and to compute values again with
  // the weights of their forward pass.
  int versions = 0;
  std::vector<int> versioned;
  // The arena of the stage: one part for all micro-batches, then one for each in flight, for each
  // update in flight, and for each version of the weights.
  int64_t shared_bytes = 0, instance_bytes = 0, update_bytes = 0, version_bytes = 0;
  // By buffer of the program: its place in the stage's arena, in the first copy; −1: the stage does
  // not use it.
  std::vector<int64_t> offsets;
  std::vector<Copies> copies;  // by buffer
  std::vector<VersionedParameter> parameters;

  // All, in their order for a single micro-batch.
  std::vector<int> instructions() const;
  bool updates_by_layer() const { return !last_grad_input.empty(); }
  // grad_input of the micro-batch that completes an update.
  const std::vector<int>& completing_grad_input() const {
    return updates_by_layer() ? last_grad_input : grad_input;
  }
  int64_t versions_offset() const {
    return shared_bytes + window * instance_bytes + updates_in_flight * update_bytes;
  }
  int64_t arena_bytes() const { return versions_offset() + versions * version_bytes; }
};

struct PipelinePlan {
  std::vector<StagePlan> stages;
  std::vector<Transfer> transfers;
};

// By parameter of the graph, whether an instruction writes it: an update, or statistics. Stages may
// share the others.
std::vector<bool> written_parameters(const Graph& graph, const Program& program);

// `program` trains the graph; `stage_of` has a stage for each node, ascending, from 0 to the
// schedule's last. The program may compute values again, except those in passed_values(). Errors:
// the optimiser cannot predict weights although the schedule wants it, nodes of several stages
// share a parameter that is written, gradients are clipped by their common norm, a value with exponents for its
// channels is passed on, or a value would be computed again in another stage.
Result<PipelinePlan> plan_stages(const Graph& graph, const Program& program,
                                 const StateLayout& layout, std::span<const int> stage_of,
                                 const pipeline::Schedule& schedule);

// Bytes of the parameter's tensors: mantissas, exponents, and the optimiser's.
int64_t state_bytes(const StateLayout& layout, int parameter);

// By value of the graph, whether a stage reads it from another: both keep it.
std::vector<bool> passed_values(const Graph& graph, const Program& program,
                                std::span<const int> stage_of);

// By buffer of the program: its place in the stage's arena for the micro-batches of one instance.
std::vector<int64_t> instance_offsets(const StagePlan& stage, int instance);

}  // namespace mantissa
