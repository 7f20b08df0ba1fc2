// The connections of a pipeline's stages: with each other, with the batches, and with the state.
// Shared by the process that runs the loop and its worker processes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "pipeline/schedule.h"
#include "plan/programs/program.h"
#include "plan/stages/stages.h"
#include "runtime/stages/channel.h"
#include "runtime/stages/stage.h"
#include "runtime/stages/stage_messages.h"

namespace mantissa {

// The updates of micro-batches in flight, plus one that is fed and one that is taken.
int updates_at_once(const PipelinePlan& plan, const pipeline::Options& options);

// The options of a schedule of this many updates. `flushes`: also in asynchronous modes stages
// update together, in the form that needs no more micro-batches in flight than they have room for.
pipeline::Options options_of(const pipeline::Options& options, int updates, bool flushes);

// Bytes of an input of the network in a whole step.
int64_t input_bytes(const Graph& graph, const Program& program, int input);

// Memory for the values passed between stages.
int64_t passed_bytes(const Program& program, const PipelinePlan& plan);

// The part of this memory for values on their way to a stage.
int64_t received_bytes(const Program& program, const PipelinePlan& plan, int stage);

// Channels of the consecutive stages of one process, from the first on.
struct Channels {
  std::vector<std::unique_ptr<Channel>> all;
  std::vector<std::vector<Channel*>> receives, sends;  // by stage of this process
};
// Connects the stages with each other, and with those of other processes.
Channels make_channels(const PipelinePlan& plan, std::deque<Stage>& stages, int first_stage,
                       const Processes& processes);

// Makes the stage of this process one of several processes, with its replicas if it has any.
void join_processes(const Program& program, const StagePlan& plan, const pipeline::Options& options,
                    const Processes& processes, Stage& stage);

// By input of the network: whether a stage reads it.
std::vector<char> inputs_of(const Graph& graph, const Program& program, const StagePlan& stage);

// The state that a stage starts from: its parameters, and all predictors.
std::vector<StateRange> started_state(const Program& program, const StateLayout& layout,
                                      const StagePlan& stage);

}  // namespace mantissa
