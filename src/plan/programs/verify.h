// Whether a program meets the conditions that executors rely on.
#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "plan/programs/program.h"

namespace mantissa {

// Every buffer lies in the arena and lives over all instructions that name it. No two that live at
// once overlap. An earlier instruction has written everything that an instruction reads. Operands
// fit their buffers; slots, inputs and parameters exist. An error names the instruction.
Status verify(const Graph& graph, const Program& program);

}  // namespace mantissa
