// A stage of a pipeline that works in a process of its own.
#pragma once

#include <cstddef>
#include <span>

#include "base/cpu.h"
#include "base/result.h"
#include "graph/graph.h"
#include "pipeline/schedule.h"
#include "plan/program.h"
#include "plan/stages.h"
#include "runtime/stage_messages.h"
#include "runtime/state.h"

namespace mantissa {

// Works on the stage of this process, which is not the first, until the first process says that it
// is enough, or something fails. The state gets its contents from there.
Status serve_stage(const Graph& graph, const Program& program, const PipelinePlan& plan,
                   const pipeline::Options& options, State& state, std::span<std::byte> arena,
                   int threads, Isa isa, const Processes& processes);

}  // namespace mantissa
