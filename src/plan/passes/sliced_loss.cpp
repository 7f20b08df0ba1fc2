#include "plan/passes/sliced_loss.h"

#include <algorithm>
#include <bit>

#include "ops/losses/slices/sliced_loss.h"
#include "ops/ops.h"
#include "plan/passes/program_writer.h"

namespace mantissa {
namespace {

constexpr int64_t kSliceBytes = int64_t{16} << 20;

// Whether only this node reads a value, or its views.
bool reads_alone(const Graph& graph, const ResolvedValues& values, int reader, int value) {
  for (int n = 0; n < std::ssize(graph.nodes); ++n) {
    if (n == reader || values.skipped[n]) continue;
    const std::vector<int>& inputs = graph.nodes[n].inputs;
    const auto is_value = [&](int input) {
      return values.canonical[input] == values.canonical[value];
    };
    if (std::ranges::any_of(inputs, is_value)) return false;
  }
  return true;
}

// Whether the gradient of the logits is written once, with the bits that the layer reads.
bool is_written_once(const Format& format) {
  const int wide = format.wide_gradient_bits();
  const int written = format.nearest_gradients ? wide : std::max(wide, 16);
  return written == wide && wide == format.gradient_bits && !format.is_dynamic();
}

bool is_result(const ResolvedValues& values, const ProgramOptions& options, int value) {
  return std::ranges::any_of(options.results, [&](int result) {
    return values.canonical[result] == values.canonical[value];
  });
}

int64_t logit_rows(const Graph& graph, const ProgramOptions& options, int logits) {
  const Shape& shape = graph.values[logits].shape;
  return options.micro_batch_size * shape.count() / shape.last();
}

// The rows of a slice, or 0 if all logits are few.
int64_t rows_of_slice(const Graph& graph, const ProgramOptions& options, int logits) {
  const int64_t row = graph.values[logits].shape.last() * int64_t{sizeof(int32_t)};
  if (logit_rows(graph, options, logits) * row <= 2 * kSliceBytes) return 0;
  return std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, kSliceBytes / row)));
}

// Memory of the layer for slices, and for the shorter last one.
RowMemory own_memory(const ProgramWriter& writer, const SlicedLoss& sliced, int64_t all,
                     int64_t piece, bool has_gradient) {
  RowMemory most;
  for (const int64_t rows : {piece, all % piece}) {
    if (rows == 0) continue;
    const OpMemory memory = writer.operands().memory_of_rows(writer.node(sliced.layer), rows);
    for (const RowMemory* each : {&memory.forward, &memory.grad_input}) {
      if (each == &memory.grad_input && !has_gradient) continue;
      most.workspace_bytes = std::max(most.workspace_bytes, each->workspace_bytes);
      most.scratch_bytes = std::max(most.scratch_bytes, each->scratch_bytes);
    }
  }
  return most;
}

// The rows of the exponent table of the gradients of the logits and of the layer's input.
Exponent gradient_row(const ProgramWriter& writer, int node, bool is_layer) {
  const int value = writer.node(node).inputs[0];
  Exponent row = gradient_exponent(writer.slots(), ExponentOwner::kGradient, node, 0,
                                   writer.operands().grid_of(value), true, writer.format());
  row.bits = writer.operands().written_bits(is_layer);
  return row;
}

// The logits, or their gradient: never there as a whole.
Operand absent(const ProgramWriter& writer, int logits, DataType type, int exponent) {
  return {.type = type, .exponent = exponent, .shape = writer.operands().shape_of(logits)};
}

}  // namespace

std::optional<SlicedLoss> sliced_loss(const Graph& graph, const ResolvedValues& values,
                                      const ProgramOptions& options) {
  if (graph.losses.size() != 1) return {};
  const int loss = graph.losses[0];
  const int logits = graph.nodes[loss].inputs[0];
  const int layer = values.producer[values.canonical[logits]];
  if (layer < 0 || !ops::takes_slices(graph.nodes[layer], graph.nodes[loss])) return {};
  const Op& op = *graph.nodes[layer].op;
  const bool is_plain = &rows_in(op, options.format) == &op.integer &&
                        values.is_wide[values.canonical[logits]] && !values.fused_relu[layer] &&
                        reads_alone(graph, values, loss, logits);
  if (!is_plain) return {};
  if (options.kind == ProgramKind::kTraining) {
    const bool fits = !trains(graph, graph.nodes[layer]) && is_written_once(options.format);
    return fits ? std::optional(SlicedLoss{layer, loss}) : std::nullopt;
  }
  if (!options.given.empty() || options.cached_positions > 0) return {};
  const bool are_read = options.results.empty() || is_result(values, options, logits);
  return are_read ? std::nullopt : std::optional(SlicedLoss{layer, loss});
}

ProgramOptions with_slices(const Graph& graph, ProgramOptions options) {
  const auto sliced = sliced_loss(graph, resolve_values(graph), options);
  if (sliced) {
    options.logit_rows = rows_of_slice(graph, options, graph.nodes[sliced->loss].inputs[0]);
  }
  return options;
}

ProgramOptions with_sliced_loss_alone(const Graph& graph, ProgramOptions options) {
  if (graph.losses.size() != 1) return options;
  ProgramOptions alone = options;
  alone.results = {graph.nodes[graph.losses[0]].outputs[0]};
  alone = with_slices(graph, std::move(alone));
  return alone.logit_rows > 0 ? alone : options;
}

ProgramOptions without_sliced_logits(const Graph& graph, ProgramOptions options) {
  const ProgramOptions alone = with_sliced_loss_alone(graph, options);
  const bool is_calibrated = !options.format.has_row_exponents();
  if (alone.logit_rows == 0 || is_calibrated || graph.outputs.size() != 1) return options;
  const ResolvedValues values = resolve_values(graph);
  const int layer = sliced_loss(graph, values, alone)->layer;
  const bool ends_there = values.producer[values.canonical[graph.outputs[0]]] == layer;
  if (ends_there) options.results = graph.nodes[layer].inputs;
  return options;
}

void write_sliced_loss(ProgramWriter& writer, const SlicedLoss& sliced) {
  const NodeOperands& nodes = writer.operands();
  const Node &layer = writer.node(sliced.layer), &loss = writer.node(sliced.loss);
  const int logits = writer.values().canonical[loss.inputs[0]];
  const int64_t classes = nodes.shape_of(logits).last();
  const int64_t all = nodes.shape_of(logits).count() / classes;
  const int64_t rows = std::min(all, writer.options().logit_rows);
  const bool has_gradient = writer.training() && nodes.wants_gradient(layer.inputs[0]);
  const Op& op = ops::kSlicedCrossEntropy;
  Instruction instruction = writer.instruction_of(sliced.layer, op.integer.forward);
  instruction.op = &op;
  instruction.node = sliced.loss;
  instruction.name = loss.name;
  instruction.rows_at_once = rows;
  instruction.add(writer.operand(layer.inputs[0]), Role::kInput, Access::kReads);
  for (size_t i = 1; i < loss.inputs.size(); ++i) {
    instruction.add(writer.operand(loss.inputs[i]), Role::kInput, Access::kReads);
  }
  instruction.add(absent(writer, logits, DataType::kInt32, logits), Role::kOutput, Access::kWrites);
  int gradient_bits = 0;
  if (has_gradient) {
    const Exponent row = gradient_row(writer, sliced.loss, false);
    gradient_bits = row.bits;
    instruction.multiply_adds *= 2;
    instruction.add(absent(writer, logits, nodes.gradient_type(row.bits), writer.add_exponent(row)),
                    Role::kGradInput, Access::kWrites);
    const Operand gradient =
        writer.gradient_operand(layer.inputs[0], gradient_row(writer, sliced.layer, true));
    instruction.add(gradient, Role::kGradInput, Access::kWrites);
    writer.set_sliced_gradient(gradient);
  }
  RowMemory memory = own_memory(writer, sliced, all, rows, has_gradient);
  memory.workspace_bytes =
      ops::sliced_workspace_bytes(rows, classes, gradient_bits, memory.workspace_bytes);
  writer.add_row_memory(instruction, memory);
  writer.emit(std::move(instruction));
}

}  // namespace mantissa
