#include "graph/gradient.h"

#include <algorithm>

#include "graph/op.h"

namespace mantissa {

const NamedOperands* EmittedInstruction::find(Role role) const {
  const auto found = std::ranges::find(operands, role, &NamedOperands::role);
  return found == operands.end() ? nullptr : &*found;
}

void GradientEmitter::emit(const OpRow& row, std::initializer_list<NamedOperands> operands) {
  if (!row) return;
  EmittedInstruction instruction{.row = &row, .operands = operands};
  std::erase_if(instruction.operands,
                [](const NamedOperands& each) { return each.access == Access::kNone; });
  instructions_.push_back(std::move(instruction));
}

GradientEmitter gradient_of(const Op& op, const OpRows& rows, bool relu) {
  GradientEmitter emitter(rows, relu);
  if (op.emit_gradient != nullptr) op.emit_gradient(emitter);
  return emitter;
}

bool reads_backward(const Op& op, Role role) {
  return std::ranges::any_of(gradient_of(op, op.integer, false).instructions(),
                             [&](const EmittedInstruction& each) { return each.names(role); });
}

bool leaves_mask_to_producer(const Op& op) {
  return gradient_of(op, op.integer, false).leaves_mask();
}

void emit_rounded_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_input, {e.grad_outputs(), e.grad_inputs()});
}

void emit_passed_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_input, {e.grad_outputs(), e.grad_inputs(GradientWidth::kPassed)});
}

void emit_gradient_by_inputs(GradientEmitter& e) {
  e.emit(e.rows().grad_input, {e.inputs(), e.grad_outputs(), e.grad_inputs()});
}

void emit_passed_gradient_by_inputs(GradientEmitter& e) {
  e.emit(e.rows().grad_input,
         {e.inputs(), e.grad_outputs(), e.grad_inputs(GradientWidth::kPassed)});
}

void emit_weighted_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_weights,
         {e.inputs(), e.outputs_if_relu(), e.grad_outputs(), e.saved(), e.sums()});
  e.emit(e.rows().grad_input,
         {e.inputs(), e.outputs_if_relu(), e.grad_outputs(), e.saved(), e.grad_inputs()});
}

}  // namespace mantissa
