// The backward pass of a node, as its op writes it: instructions that name their operands. Values
// that are to be kept or computed again, shared gradients and memory that is left from one
// instruction to the next follow from the names.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "graph/roles.h"

namespace mantissa {

struct Op;
struct OpRow;
struct OpRows;

// The bits of a gradient that an instruction writes.
enum class GradientWidth : uint8_t {
  kRounded,  // gw
  kLayer,    // g: a layer's
  kPassed,   // as it came: mantissas are passed on, and nothing is rounded
};

// All operands of one role that a node has.
struct NamedOperands {
  Role role = Role::kInput;
  Access access = Access::kReads;
  GradientWidth width = GradientWidth::kRounded;  // of gradients: written, or read in g bits
  bool is_shared = false;                         // all inputs receive one and the same gradient
};

struct EmittedInstruction {
  const OpRow* row = nullptr;
  std::vector<NamedOperands> operands;

  bool names(Role role) const { return find(role) != nullptr; }
  const NamedOperands* find(Role role) const;  // null: it names none
};

// An op's emit_gradient calls emit() for each instruction, in any order that its operands allow.
// An instruction whose results nobody wants is left out afterwards.
class GradientEmitter {
 public:
  // The rows of an arithmetic. `relu`: the mask of a ReLU belongs to this node.
  GradientEmitter(const OpRows& rows, bool relu) : rows_(rows), relu_(relu) {}

  const OpRows& rows() const { return rows_; }

  // Values of the forward pass.
  static NamedOperands inputs() { return {.role = Role::kInput}; }
  static NamedOperands outputs() { return {.role = Role::kOutput}; }
  // For the mask.
  NamedOperands outputs_if_relu() const {
    return {.role = Role::kOutput, .access = relu_ ? Access::kReads : Access::kNone};
  }
  // Read: as wide as they came, or rounded to g bits.
  static NamedOperands grad_outputs() { return {.role = Role::kGradOutput}; }
  static NamedOperands grad_outputs_of_layer() {
    return {.role = Role::kGradOutput, .width = GradientWidth::kLayer};
  }
  // Written.
  static NamedOperands grad_inputs(GradientWidth width = GradientWidth::kRounded) {
    return {.role = Role::kGradInput, .access = Access::kWrites, .width = width};
  }
  static NamedOperands shared_grad_input(GradientWidth width) {
    return {.role = Role::kGradInput, .access = Access::kWrites, .width = width, .is_shared = true};
  }
  // Sums of the gradients of trained parameters.
  static NamedOperands sums() { return {.role = Role::kSum, .access = Access::kAccumulates}; }
  static NamedOperands saved() { return {.role = Role::kSaved}; }
  // As the instruction before left it.
  static NamedOperands left_workspace() { return {.role = Role::kWorkspace}; }

  // Left out: a row that the arithmetic lacks; operands without access.
  void emit(const OpRow& row, std::initializer_list<NamedOperands> operands);
  // Instead of an instruction: the input's gradient is the output's. The input's producer applies
  // the mask of this ReLU.
  void leave_mask_to_producer() { leaves_mask_ = true; }

  const std::vector<EmittedInstruction>& instructions() const { return instructions_; }
  bool leaves_mask() const { return leaves_mask_; }

 private:
  const OpRows& rows_;
  bool relu_;
  bool leaves_mask_ = false;
  std::vector<EmittedInstruction> instructions_;
};

// The backward pass of a node of this op.
GradientEmitter gradient_of(const Op& op, const OpRows& rows, bool relu);

// Whether the backward pass reads the inputs or the outputs, without the mask of a ReLU behind it.
bool reads_backward(const Op& op, Role role);
bool leaves_mask_to_producer(const Op& op);

// Common backward passes.
// One instruction that reads only the gradient: rounded, or passed on.
void emit_rounded_gradient(GradientEmitter& emitter);
void emit_passed_gradient(GradientEmitter& emitter);
// One instruction that reads the inputs, too.
void emit_gradient_by_inputs(GradientEmitter& emitter);
void emit_passed_gradient_by_inputs(GradientEmitter& emitter);
// Gradients of parameters, which read the inputs, and of the inputs.
void emit_weighted_gradient(GradientEmitter& emitter);

}  // namespace mantissa
