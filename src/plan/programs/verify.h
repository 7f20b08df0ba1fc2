// Whether a program keeps the promises that executors rely on.
#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "plan/programs/program.h"

namespace mantissa {

// Every buffer lies in the arena and lives over all instructions that name it; no two that live at
// once overlap; what an instruction reads an instruction before it wrote; operands fit their
// buffers; slots, inputs and parameters exist. An error names the instruction.
Status verify(const Graph& graph, const Program& program);

}  // namespace mantissa
