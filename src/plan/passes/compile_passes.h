// The passes that compile() consists of, in its order.
#pragma once

#include <vector>

#include "base/result.h"
#include "plan/passes/program_writer.h"

namespace mantissa {

// Whether the network can be compiled in this format for this purpose; an error names the node.
Status check_network(const ProgramWriter& writer);

// The forward instructions. Results are the operands of the program's outputs.
void write_forward(ProgramWriter& writer);

// Forward instructions again for the values that are not there, and before them for the values
// that they are computed from, in the order of the forward pass.
void restore_values(ProgramWriter& writer, const std::vector<int>& values);

// The backward instructions, and the updates that may follow their gradients at once.
void write_backward(ProgramWriter& writer);

// Adds the operands that an op named to an instruction of a node's backward pass: `gradients` of
// its outputs, its inputs (or only their shapes), its outputs, and saved data.
void add_backward_operands(ProgramWriter& writer, Instruction& instruction,
                           const EmittedInstruction& emitted, bool reads_input,
                           const std::vector<Operand>& gradients);

// Updates of the parameters whose gradients are complete once the node's are.
void write_updates(ProgramWriter& writer, int n);

// An update of the node's first parameter that computes its gradient a few rows at a time. It reads
// the operands of `weights`, the instruction that would compute it as a whole, and has memory for a
// few rows only; or it uses the memory of the sums that turned out to be too wide.
void write_update_by_rows(ProgramWriter& writer, int n, const EmittedInstruction& weights,
                          const std::vector<Operand>& gradients);

// The instructions of the end of a step: the norm of all gradients, updates, statistics.
void write_end_of_step(ProgramWriter& writer);

// The first and the last instruction of each buffer's life.
void find_lifetimes(Program& program);

}  // namespace mantissa
