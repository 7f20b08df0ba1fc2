// Training as C99 for machines without an operating system: a step computes the bits that a run
// computes (docs/device.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/export_c.h"
#include "graph/graph.h"
#include "plan/programs/program.h"
#include "runtime/state.h"

namespace mantissa::device {

// A training program whose state and arena in C need at most this many bytes: values that are not
// kept are computed again. Errors: there is none; it names the least that was found.
Result<Program> fitting_program(const Graph& graph, const ProgramOptions& options,
                                const StateLayout& layout, int64_t budget_bytes);

// A training program to write as C.
struct CTraining {
  std::string prefix;
  const Graph* graph;
  const Program* program;  // planned for one thread and the reference's rows
  State* state;            // to begin with
  StepScalars scalars;     // of all steps but for the learning rate; `step` steps are done
  // The learning rates: each holds from its step on.
  std::vector<std::pair<int64_t, double>> learning_rates;
  int64_t total_steps = 0;
};

// 64 bits that name a network, its format, and the layout of its state: saved states have them.
uint64_t saved_identity(const Graph& graph, const StateLayout& layout, const Format& format);

// Errors name the node that C lacks.
Result<CProgram> c_of_training(const CTraining& training);

}  // namespace mantissa::device
