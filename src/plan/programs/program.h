// A compiled network: a flat list of instructions whose operands lie at fixed offsets.
//
// Pure data, printable (program_text.h). A buffer is (memory space, offset, micro-batch instance,
// weight version); today there is one instance and one version, so a buffer names space and offset.
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
#include "plan/programs/instruction.h"
#include "plan/programs/state_layout.h"
#include "plan/programs/step_schedule.h"
#include "tensor/tensor.h"

namespace mantissa {

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
  bool operator==(const Buffer&) const = default;
};

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
  // Rows of logits that are there at once, if the loss can take them in slices
  // (plan/passes/sliced_loss.h). 0: all. Changes no bit.
  int64_t logit_rows = 0;
  // If the arena exceeds this, more ways to pack it are tried.
  int64_t arena_limit_bytes = std::numeric_limits<int64_t>::max();
  Format format = {};
  bool operator==(const ProgramOptions&) const = default;
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
  int64_t cache_bytes = 0;      // of one example: all that ops keep from piece to piece
  std::vector<int64_t> caches;  // where each op's part of them begins
  int64_t live_bytes = 0;       // largest sum of buffers alive at once: the arena's lower bound
  std::vector<Grid> parameter_grids;      // as in the graph
  std::vector<Exponent> exponents;        // first those of the graph's values, in their order
  std::vector<int64_t> guarded_channels;  // per value: channels if it is guardable, else 0
  bool operator==(const Program&) const = default;
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

// The sums of bytes alive at once, by instruction, and 0 at the end.
std::vector<int64_t> live_bytes(const std::vector<Buffer>& buffers);

// The largest of them.
int64_t largest_live_set(const std::vector<Buffer>& buffers);

// One line per exponent that an instruction writes or reads: its owner, bits, limit, rule and
// predictor.
std::string exponents_to_string(const Graph& graph, const Program& program);

}  // namespace mantissa
