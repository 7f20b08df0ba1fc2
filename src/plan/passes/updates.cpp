#include "ops/gradient_rows.h"
#include "ops/ops.h"
#include "plan/passes/compile_passes.h"
#include "plan/programs/optimizer.h"

namespace mantissa {
namespace {

Instruction update_instruction(const ProgramWriter& writer) {
  Instruction update;
  update.op = optimizer(writer.options().optimizer).update;
  update.row = &writer.operands().rows(*update.op).forward;
  return update;
}

// The parameter, and its velocity if the optimiser keeps one.
void add_updated(ProgramWriter& writer, int parameter, Instruction& update) {
  update.add(parameter_operand(parameter), Role::kParameter, Access::kUpdates);
  const bool is_real = writer.operands().parameter_grids()[parameter].scaling == Scaling::kReal;
  if (is_real || !optimizer(writer.options().optimizer).has_velocity) return;
  const Format& format = writer.format();
  Exponent velocity{.owner = ExponentOwner::kVelocity,
                    .of = parameter,
                    .rule = ExponentRule::kOwnMaximum,
                    .bits = format.update_bits};
  if (format.is_dynamic()) {
    velocity.rule = ExponentRule::kDecided;
    velocity.predictor = writer.slots().velocity_predictor(parameter);
  }
  Operand operand = parameter_operand(parameter);
  operand.exponent = writer.add_exponent(velocity);
  update.add(operand, Role::kVelocity, Access::kUpdates);
}

// For weights that are trained through tanh, or whose gradients stop.
void write_bend(ProgramWriter& writer, int n, const Operand& sums) {
  const Parameter& parameter = writer.graph().parameters[n];
  const OpRow& row = writer.operands().rows(ops::kBendGradient).forward;
  if (!parameter.bends_gradient() || !row) return;
  Instruction bend;
  bend.op = &ops::kBendGradient;
  bend.row = &row;
  bend.name = parameter.name;
  bend.add(parameter_operand(n), Role::kParameter, Access::kReads);
  bend.add(sums, Role::kSum, Access::kUpdates);
  writer.emit(std::move(bend));
}

void write_gradient_norm(ProgramWriter& writer) {
  Instruction norm;
  norm.op = &ops::kGradientNorm;
  norm.row = &writer.operands().rows(ops::kGradientNorm).forward;
  norm.name = "all";
  for (const auto& [parameter, sums] : writer.sums()) {
    norm.add(parameter_operand(parameter), Role::kParameter, Access::kReads);
    norm.add(sums, Role::kSum, Access::kReads);
  }
  writer.emit(std::move(norm));
}

void write_statistics(ProgramWriter& writer, int n) {
  const OpRow& row = writer.operands().rows(*writer.node(n).op).statistics;
  if (!row || writer.values().skipped[n]) return;
  writer.begin_layer(n);
  Instruction update = writer.instruction_of(n, row);
  update.multiply_adds = 0;
  update.add(writer.memory_operand(writer.left_by(n).statistics), Role::kStatistics,
             Access::kReads);
  writer.emit(std::move(update));
}

}  // namespace

void write_updates(ProgramWriter& writer, int n) {
  writer.begin_layer(n);
  for (const int parameter : writer.node(n).parameters) {
    const auto sums = writer.sums().find(parameter);
    // The first node that uses it comes last in the backward pass.
    const bool is_last_use = writer.values().first_user[parameter] == n;
    if (sums == writer.sums().end() || !is_last_use) continue;
    write_bend(writer, parameter, sums->second);
    Instruction update = update_instruction(writer);
    update.name = writer.graph().parameters[parameter].name;
    add_updated(writer, parameter, update);
    update.add(sums->second, Role::kSum, Access::kUpdates);
    writer.emit(std::move(update));
  }
}

void write_update_by_rows(ProgramWriter& writer, int n, const EmittedInstruction& weights,
                          const std::vector<Operand>& gradients) {
  const Node& node = writer.node(n);
  const int parameter = node.parameters[0];
  const Parameter& of = writer.graph().parameters[parameter];
  const RowsAtOnce rows = writer.operands().rows_at_once(node);
  const auto there = writer.sums().extract(parameter);
  Instruction update = update_instruction(writer);
  update.node = n;
  update.name = of.name;
  add_backward_operands(writer, update, weights, true, gradients);
  if (there.empty()) {
    update.multiply_adds = ops::kReadsOfGradient * writer.operands().multiply_adds(node);
  }
  update.gradient_rows = node.op->gradient_rows;
  update.rows_at_once = rows.rows;
  if (there.empty()) {
    Shape some = of.shape;
    some.dims[0] =
        rows.sum_bytes / element_bytes(DataType::kInt32) * of.shape[0] / of.shape.count();
    const int buffer = writer.add_buffer(of.name, BufferKind::kWeightGradient, rows.sum_bytes);
    update.add({.space = Operand::Space::kArena,
                .type = DataType::kInt32,
                .index = buffer,
                .exponent = writer.add_sum_exponent(parameter, DataType::kInt32, false),
                .shape = some},
               Role::kSum, Access::kWrites);
  } else {
    update.add(there.mapped(), Role::kSum, Access::kUpdates);
  }
  add_updated(writer, parameter, update);
  writer.add_row_memory(update, {.scratch_bytes = rows.scratch_bytes});
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
