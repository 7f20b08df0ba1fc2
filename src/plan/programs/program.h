// A compiled network: a flat list of instructions whose operands lie at fixed offsets.
//
// Pure data, printable. A buffer is (memory space, offset, micro-batch instance, weight version);
// today there is one instance and one version, so a buffer names space and offset.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"
#include "numerics/exponent.h"
#include "ops/loss.h"
#include "plan/programs/exponent_table.h"
#include "plan/programs/state_layout.h"
#include "plan/programs/step_schedule.h"
#include "tensor/tensor.h"

namespace mantissa {

std::string_view phase_name(Phase phase);

enum class BufferKind : uint8_t {
  kActivation,
  kGradient,
  kWeightGradient,
  kSaved,
  kStatistics,
  kWorkspace,
  kScratch,
  kCount,
};
std::string_view buffer_kind_name(BufferKind kind);

// A piece of the arena, alive from instruction `first` to instruction `last`.
struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::kActivation;
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
  int64_t offset = -1;
};

// An operand: the place of its data, and its row in the table of exponents.
struct Operand {
  enum class Space : uint8_t { kNone, kArena, kInput };
  Space space = Space::kNone;
  int index = -1;  // buffer of the arena, or input of the graph (given values come after these)
  DataType type = DataType::kInt8;
  Shape shape;        // with the micro-batch
  int exponent = -1;  // row of the program's exponents: of a value, its index in the graph
  // Where the exponents of its rows begin in its buffer, int16 each; -1: they have none.
  int64_t row_exponents = -1;
};

struct ParameterOperand {
  int parameter = -1;        // of the graph
  int gradient_buffer = -1;  // its sums in the arena
  DataType gradient_type = DataType::kInt64;
  // Whether the type of the sums is known only after computing them (SumWidth). Sums of type int64
  // may then be int32. If there is room for int32 only, the update computes the sums that need
  // int64.
  bool measures_sums = false;
  int exponent = -1;  // row of the program's exponents, of the sums
  int velocity = -1;  // row of the program's exponents: an update that keeps one
};

struct Instruction {
  Phase phase = Phase::kForward;
  const Op* op = nullptr;
  int node = -1;               // of the graph, or -1
  int layer = -1;              // node that it belongs to, or -1
  bool once_per_step = false;  // else in each micro-batch
  std::string name;
  Attributes attributes;  // of an instruction without a node
  bool relu = false;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::vector<Operand> grad_outputs;
  std::vector<Operand> grad_inputs;
  std::vector<ParameterOperand> parameters;
  int saved = -1, statistics = -1, workspace = -1, scratch = -1;  // buffers
  bool clears_gradients = false;    // on the first micro-batch, but not those the op then writes
  bool follows_other_uses = false;  // of its parameters: their sums are there
  bool workspace_is_left = false;   // by the instruction before (OpTraits::leaves_workspace)
  // kUpdate: computes its parameter's gradient itself, a few rows at a time, with this function,
  // unless the gradient is measured and fits; null: the gradient is there.
  const GradientRows* gradient_rows = nullptr;
  int64_t rows_at_once = 0;
  int64_t cache = -1;  // start of the op's part of an example's cache; -1: it has none
  int64_t multiply_adds = 0;

  // The first, or one of no space.
  const Operand& output() const { return first_of(outputs); }
  const Operand& grad_output() const { return first_of(grad_outputs); }

 private:
  static const Operand& first_of(const std::vector<Operand>& operands) {
    static const Operand kNone;
    return operands.empty() ? kNone : operands[0];
  }
};

// Calls function(operand) for each value and gradient that the instruction reads or writes.
template <typename Function>
void for_each_operand(const Instruction& instruction, Function&& function) {
  for (const auto* operands : {&instruction.inputs, &instruction.outputs, &instruction.grad_outputs,
                               &instruction.grad_inputs}) {
    for (const Operand& operand : *operands) function(operand);
  }
}

// Calls function(buffer) for each of the instruction's buffers, some of them more than once.
template <typename Function>
void for_each_buffer(const Instruction& instruction, Function&& function) {
  for_each_operand(instruction, [&](const Operand& operand) {
    if (operand.space == Operand::Space::kArena) function(operand.index);
  });
  for (const ParameterOperand& parameter : instruction.parameters) {
    if (parameter.gradient_buffer >= 0) function(parameter.gradient_buffer);
  }
  for (const int buffer :
       {instruction.saved, instruction.statistics, instruction.workspace, instruction.scratch}) {
    if (buffer >= 0) function(buffer);
  }
}

// The purpose of a program.
enum class ProgramKind { kTraining, kInference };

// The fate of a value between the forward pass and the instructions of the backward pass that
// read it. Changes no bit (METHODS section 4: S, C and N).
enum class Retention : uint8_t {
  kKept,
  kRecomputed,          // computed again when it is first needed, and kept from then on
  kRecomputedEachTime,  // computed again for each node of the backward pass that needs it
};

// "kept", "computed again" ...
const char* retention_name(Retention retention);

struct ProgramOptions {
  ProgramKind kind = ProgramKind::kTraining;
  int64_t micro_batch_size = 1;
  int micro_batches = 1;
  OptimizerKind optimizer = OptimizerKind::kMomentum;
  bool with_loss = true;  // else without the graph's losses and the inputs that only they read
  ExponentMode exponents = ExponentMode::kExact;
  bool clips = false;                     // training: updates wait for the norm of all gradients
  std::vector<Retention> retention = {};  // training: per value; empty: all are kept
  // Training: per parameter, whether its update computes the gradient itself a few rows at a time
  // in every step. Only for those that may_compute_rows() allows; empty: none. Changes no bit.
  std::vector<bool> by_rows = {};
  // Inference of a part of the network: its results, in place of the network's; and values that the
  // caller gives after the network's inputs. Nodes that the results do not need are left out.
  // Without results: the whole network.
  std::vector<int> results = {}, given = {};
  // Inference of sequences piece by piece: the most positions of a sequence. The inputs have the
  // rows of a piece, and ops keep the data that later pieces read. 0: whole sequences.
  int64_t cached_positions = 0;
  // If the arena exceeds this, more ways to pack it are tried.
  int64_t arena_limit_bytes = std::numeric_limits<int64_t>::max();
  Format format = {};
};

// How a program that trains in this format finds the exponents of values.
constexpr ExponentMode training_exponents(const Format& format) {
  if (format.is_dynamic()) return ExponentMode::kDecided;
  return format.predicted ? ExponentMode::kPredicted : ExponentMode::kExact;
}

struct Program {
  ProgramOptions options;
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  std::vector<Segment> segments;
  StepSchedule schedule;
  std::vector<Operand> outputs;  // as in the graph, or the options' results
  int64_t arena_bytes = 0;
  int64_t cache_bytes = 0;  // of one example: all that ops keep from piece to piece
  int64_t live_bytes = 0;   // largest sum of buffers alive at once: the arena's lower bound
  std::vector<Grid> parameter_grids;      // as in the graph
  std::vector<Exponent> exponents;        // first those of the graph's values, in their order
  std::vector<int64_t> guarded_channels;  // per value: channels if it is guardable, else 0
};

// Bits of the operand's mantissas.
inline int bits_of(const Program& program, const Operand& operand) {
  return program.exponents[operand.exponent].bits;
}

// Whether the operand holds mantissas or numbers of a value, and lies in the arena.
inline bool is_kept_value(const Program& program, const Operand& operand) {
  return operand.space == Operand::Space::kArena && operand.exponent >= 0 &&
         program.exponents[operand.exponent].owner == ExponentOwner::kValue;
}

// Compiles the network. Errors name the node and why it cannot be compiled.
Result<Program> compile(const Graph& graph, const ProgramOptions& options,
                        const PlanningContext& planning);

// Gives every buffer an offset so that no two alive at once overlap; returns the arena's size.
// Tries more ways if that is above the limit.
int64_t pack_arena(std::vector<Buffer>& buffers,
                   int64_t limit_bytes = std::numeric_limits<int64_t>::max());

// The largest sum of bytes alive at once.
int64_t largest_live_set(const std::vector<Buffer>& buffers);

// One line per instruction, with buffers, offsets and sizes.
std::string to_string(const Program& program);

// One line per exponent that an instruction writes or reads: its owner, bits, limit, rule and
// predictor.
std::string exponents_to_string(const Graph& graph, const Program& program);

}  // namespace mantissa
