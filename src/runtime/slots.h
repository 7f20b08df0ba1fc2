// State of an executor from step to step, and the views that its instructions work on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "plan/programs/program.h"
#include "runtime/decided_exponents.h"
#include "runtime/observation.h"
#include "runtime/state.h"

namespace mantissa {

// The views of one instruction; its context holds spans into them, so it must not move.
struct ResolvedInstruction {
  std::vector<Tensor> inputs, outputs, grad_outputs;
  std::vector<Tensor> grad_inputs;
  std::vector<ParameterView> parameters;
  std::vector<Attributes> attributes;  // of the node; of a sliced loss, then of its layer
  OpContext context;
  Prepared prepared;     // by the op
  int64_t narrowed = 0;  // mantissas that it rounds, for the saturation rate
};

// Exponents and counters of a step, and everything that instructions point to.
struct Slots {
  std::vector<int16_t> exponents;                      // per row of the program's table
  std::vector<uint8_t> narrow_sums;                    // per parameter: whether they are int32
  std::vector<int16_t> measured;                       // per predictor of gradients, this step
  DecidedExponents decided;                            // dynamic fixed point
  std::vector<uint8_t> violated;                       // per value, this step: guard wanted
  std::vector<std::vector<int8_t>> channel_exponents;  // per value
  std::vector<int64_t> saturated;                      // per instruction
  std::deque<ResolvedInstruction> instructions;
  // Predictors that the current instructions decide, and values with a guard.
  std::vector<int> predictors, guarded_values;
  std::vector<const std::byte*> batch;   // per input of the graph
  std::vector<std::string> read_inputs;  // their names; empty: nothing reads it
  StepScalars scalars;
  StepTotals totals;
  std::array<LossTotals, kMostLosses> losses;  // as in the graph
  std::vector<double> loss_units;  // of LossTotals::loss_q24 in the sum of losses
  int64_t requantised = 0;
};

// Slots for a program; fixed exponents come from the state if it is a frozen network's.
void allocate_slots(const Graph& graph, const Program& program, const State& state, Slots& slots);

// The offsets of the program's buffers.
struct ArenaPlaces {
  std::span<std::byte> memory;
  std::span<const int64_t> offsets;
};

// Turns the program's operands into views of arena, state and slots, once. Only for these
// instructions: others are left empty.
void resolve_operands(const Graph& graph, const Program& program, State& state,
                      const ArenaPlaces& arena, ThreadPool& pool,
                      const kernels::KernelTable& kernels, std::span<const int> instructions,
                      Slots& slots);

// The parts of the state that these instructions read and change.
std::vector<StateRange> changed_state(const Program& program, const StateLayout& layout,
                                      std::span<const int> instructions);

// Sets a step's counts to zero; `step` is the step that begins.
void clear_counts(const Program& program, int64_t step, Slots& slots);
// Adds the counts of another executor of the same program and step. The order of several changes
// nothing.
void add_counts(const Slots& other, Slots& slots);
// The same for an executor in another process: the counts as bytes, and adding such bytes. Fails if
// they belong to another program.
std::vector<std::byte> write_counts(const Slots& slots);
Status read_counts(std::span<const std::byte> counts, Slots& slots);

}  // namespace mantissa
