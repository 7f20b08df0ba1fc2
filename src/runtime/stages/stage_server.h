// A pipeline stage in a process of its own.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/system/cpu.h"
#include "graph/graph.h"
#include "pipeline/schedule.h"
#include "plan/programs/program.h"
#include "plan/stages/stages.h"
#include "runtime/stages/stage_messages.h"
#include "runtime/state.h"

namespace mantissa {

// Works on the stage of this process, which is not the first, until the first process ends it or
// something fails. The first process also sends the contents of the state.
Status serve_stage(const Graph& graph, const Program& program, const PipelinePlan& plan,
                   const pipeline::Options& options, State& state, std::span<std::byte> arena,
                   int threads, Isa isa, const Processes& processes);

}  // namespace mantissa
