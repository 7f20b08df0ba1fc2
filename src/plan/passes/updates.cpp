#include "ops/gradient_rows.h"
#include "ops/ops.h"
#include "plan/passes/compile_passes.h"
#include "plan/programs/optimizer.h"

namespace mantissa {
namespace {

Instruction update_instruction(const ProgramWriter& writer) {
  Instruction update;
  update.phase = Phase::kUpdate;
  update.op = optimizer(writer.options().optimizer).update;
  return update;
}

// The sums, and the exponent of the velocity if the optimiser keeps one.
ParameterOperand updated(ProgramWriter& writer, ParameterOperand operand) {
  const Format& format = writer.format();
  if (format.is_float() || !optimizer(writer.options().optimizer).has_velocity) return operand;
  Exponent velocity{.owner = ExponentOwner::kVelocity,
                    .of = operand.parameter,
                    .rule = ExponentRule::kOwnMaximum,
                    .bits = format.update_bits};
  if (format.is_dynamic()) {
    velocity.rule = ExponentRule::kDecided;
    velocity.predictor = writer.slots().velocity_predictor(operand.parameter);
  }
  operand.velocity = writer.add_exponent(velocity);
  return operand;
}

// For weights that are trained through tanh, or whose gradients stop.
void write_bend(ProgramWriter& writer, const ParameterOperand& sums) {
  const Parameter& parameter = writer.graph().parameters[sums.parameter];
  if (!parameter.bends_gradient() || writer.format().is_float()) return;
  Instruction bend;
  bend.phase = Phase::kUpdate;
  bend.op = &ops::kBendGradient;
  bend.name = parameter.name;
  bend.parameters = {sums};
  writer.emit(std::move(bend));
}

void write_gradient_norm(ProgramWriter& writer) {
  Instruction norm;
  norm.phase = Phase::kUpdate;
  norm.op = &ops::kGradientNorm;
  norm.name = "all";
  for (const auto& [parameter, sums] : writer.gradients()) norm.parameters.push_back(sums);
  writer.emit(std::move(norm));
}

void write_statistics(ProgramWriter& writer, int n) {
  const bool has_statistics =
      writer.operands().functions(writer.node(n)).update_statistics != nullptr;
  if (!has_statistics || writer.values().skipped[n]) return;
  writer.begin_layer(n);
  Instruction update = writer.instruction_of(n, Phase::kUpdateStatistics);
  update.multiply_adds = 0;
  update.statistics = writer.left_by(n).statistics;
  writer.emit(std::move(update));
}

}  // namespace

void write_updates(ProgramWriter& writer, int n) {
  writer.begin_layer(n);
  for (const int parameter : writer.node(n).parameters) {
    const auto sums = writer.gradients().find(parameter);
    // The first node that uses it comes last in the backward pass.
    const bool is_last_use = writer.values().first_user[parameter] == n;
    if (sums == writer.gradients().end() || !is_last_use) continue;
    write_bend(writer, sums->second);
    Instruction update = update_instruction(writer);
    update.name = writer.graph().parameters[parameter].name;
    update.parameters = {updated(writer, sums->second)};
    writer.emit(std::move(update));
  }
}

void write_update_by_rows(ProgramWriter& writer, int n, const std::vector<Operand>& gradients) {
  const Node& node = writer.node(n);
  const int parameter = node.parameters[0];
  const RowsAtOnce rows = writer.operands().rows_at_once(node);
  const auto there = writer.gradients().extract(parameter);
  Instruction update = writer.instruction_of(n, Phase::kUpdate);
  add_backward_operands(writer, update, true, gradients);
  update.multiply_adds *= there.empty() ? ops::kReadsOfGradient : 0;
  update.op = optimizer(writer.options().optimizer).update;
  update.name = writer.graph().parameters[parameter].name;
  update.relu = false;
  update.gradient_rows = node.op->gradient_rows;
  update.rows_at_once = rows.rows;
  if (there.empty()) {
    update.parameters = {{.parameter = parameter,
                          .gradient_buffer = writer.add_buffer(
                              update.name, BufferKind::kWeightGradient, rows.sum_bytes),
                          .gradient_type = DataType::kInt32,
                          .exponent = writer.add_sum_exponent(parameter, DataType::kInt32, false)}};
  } else {
    update.parameters = {there.mapped()};
  }
  update.parameters[0] = updated(writer, update.parameters[0]);
  writer.add_phase_memory(update, {.scratch_bytes = rows.scratch_bytes});
  writer.emit(std::move(update));
}

void write_end_of_step(ProgramWriter& writer) {
  if (!writer.training()) return;
  writer.begin_end_of_step();
  writer.begin_layer(-1);
  if (writer.options().clips) write_gradient_norm(writer);
  const bool updates_wait = !writer.operands().updates_at_once();
  for (int n = writer.node_count() - 1; updates_wait && n >= 0; --n) write_updates(writer, n);
  for (int n = 0; n < writer.node_count(); ++n) write_statistics(writer, n);
}

}  // namespace mantissa
