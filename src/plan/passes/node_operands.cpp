#include "plan/passes/node_operands.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/gradient_rows.h"

namespace mantissa {
namespace {

// Rows that are computed at once: as many as a core's own cache holds together with their operands,
// and whole tiles of the kernels.
constexpr int64_t kRowBytes = int64_t{1} << 20;
constexpr int64_t kRowTile = 16;

}  // namespace

const OpRows& rows_in(const Op& op, const Format& format) {
  static constexpr OpRows kNone;
  if (!format.is_float()) return op.integer;
  return op.fp32 != nullptr ? *op.fp32 : kNone;
}

OpMemory NodeOperands::memory_of(const Node& node) const {
  const auto memory = rows(*node.op).memory;
  if (memory == nullptr) return {};
  return with_shapes(node, [&](const OpShapes& shapes) { return memory(shapes, planning_); });
}

OpMemory NodeOperands::memory_of_rows(const Node& node, int64_t rows) const {
  return with_shapes(node, [&](OpShapes shapes) {
    const Shape input{rows, shapes.inputs[0].last()};
    shapes.inputs = std::span(&input, 1);
    shapes.output = Shape{rows, shapes.output.last()};
    return this->rows(*node.op).memory(shapes, planning_);
  });
}

int64_t NodeOperands::multiply_adds(const Node& node) const {
  return node.op->multiply_adds == nullptr ? 0 : with_shapes(node, node.op->multiply_adds);
}

Shape NodeOperands::shape_of(int value) const {
  return graph_.values[value].shape.with_front(options_.micro_batch_size);
}

DataType NodeOperands::type_of(int value) const {
  if (graph_.values[value].element == Element::kIndex) return DataType::kInt32;
  if (graph_.values[value].element == Element::kNumber) return DataType::kInt16;
  const Grid& grid = grid_of(value);
  return is_wide(value) && grid.scaling == Scaling::kExponent ? DataType::kInt32 : grid.storage();
}

DataType NodeOperands::gradient_type(int bits) const {
  return Grid{.scaling = grids_.gradient.scaling, .bits = bits}.storage();
}

int NodeOperands::kept_bits(bool is_layer) const {
  return is_layer ? grids_.gradient.bits : grids_.wide_gradient.bits;
}

int NodeOperands::written_bits(bool is_layer) const {
  const int kept = kept_bits(is_layer);
  return options_.format.nearest_gradients ? kept : std::max(kept, 16);
}

int NodeOperands::grad_input_bits(GradientWidth width, int gradient_bits) const {
  return width == GradientWidth::kPassed ? gradient_bits
                                         : written_bits(width == GradientWidth::kLayer);
}

SumWidth NodeOperands::sum_width(const Node& node, bool first) const {
  const auto width = rows(*node.op).sum_width;
  if (!first || width == nullptr || options_.micro_batches != 1 || shares_parameters(node)) {
    return SumWidth::kInt64;
  }
  // Rounded to the accumulator's exponent before they are changed, for any number of micro-batches.
  if (graph_.parameters[node.parameters[0]].bends_gradient()) return SumWidth::kInt64;
  return with_shapes(node, width);
}

DataType NodeOperands::weight_gradient_type(const Node& node, bool first) const {
  if (grids_.gradient.scaling == Scaling::kReal) return DataType::kFloat;
  const bool narrow = sum_width(node, first) == SumWidth::kInt32;
  return narrow || (first && falls_back_on_rows(node)) ? DataType::kInt32 : DataType::kInt64;
}

bool NodeOperands::updates_at_once() const {
  return options_.micro_batches == 1 && !options_.clips;
}

bool NodeOperands::has_rows(const Node& node) const {
  if (node.op->gradient_rows == nullptr || shares_parameters(node)) return false;
  const Grid& weights = grids_.parameters[node.parameters[0]];
  if (weights.scaling == Scaling::kReal || weights.blocks == Blocks::kChannel) return false;
  return updates_at_once() && optimizer(options_.optimizer).takes_gradient_rows &&
         with_shapes(node, node.op->gradient_rows->possible);
}

bool NodeOperands::may_compute_rows(const Node& node) const {
  return has_rows(node) && sum_width(node, true) == SumWidth::kInt32;
}

bool NodeOperands::falls_back_on_rows(const Node& node) const {
  if (!has_rows(node) || sum_width(node, true) != SumWidth::kMeasured) return false;
  const Shape& weights = graph_.parameters[node.parameters[0]].shape;
  const int64_t narrow = weights.count() * element_bytes(DataType::kInt32);
  const int64_t saved = weights.count() * element_bytes(DataType::kInt64) - narrow;
  const RowsAtOnce rows = rows_at_once(node);
  return rows.sum_bytes <= narrow && rows.scratch_bytes <= saved;
}

RowsAtOnce NodeOperands::rows_at_once(const Node& node) const {
  const Shape& weights = graph_.parameters[node.parameters[0]].shape;
  const int64_t parts = ops::gradient_row_parts(planning_.threads);
  const bool wide = sum_width(node, true) == SumWidth::kMeasured;
  const int64_t row_bytes =
      weights.count() / weights[0] * element_bytes(wide ? DataType::kInt64 : DataType::kInt32);
  // Wide rows are rare: they get as little memory as possible.
  const int64_t most = wide ? kRowTile : kRowBytes / row_bytes / kRowTile * kRowTile;
  RowsAtOnce result;
  result.rows = std::min(std::max(kRowTile, most), divide_up(weights[0], parts));
  result.sum_bytes = parts * result.rows * row_bytes;
  result.scratch_bytes =
      parts * with_shapes(node, [&](const OpShapes& shapes) {
        return node.op->gradient_rows->scratch_bytes(shapes, planning_, result.rows);
      });
  return result;
}

bool NodeOperands::input_comes_first(const Node& node, const EmittedInstruction& weights,
                                     const EmittedInstruction& input, int gradient_bits) const {
  const OpMemory memory = memory_of(node);
  // Sums of several micro-batches are always there.
  if (memory.saved_bytes > 0 || options_.micro_batches > 1) return false;
  const GradientWidth width = input.find(Role::kGradInput)->width;
  const bool reads_inputs = weights.names(Role::kInput);
  int64_t inputs = 0, gradients = 0, sums = 0;
  for (const int each : node.inputs) {
    const int64_t count = shape_of(each).count();
    if (reads_inputs) inputs += count * element_bytes(type_of(each));
    if (wants_gradient(each)) {
      gradients += count * element_bytes(gradient_type(grad_input_bits(width, gradient_bits)));
    }
  }
  for (const int parameter : node.parameters) {
    const bool first = parameter == node.parameters.front();
    sums += graph_.parameters[parameter].shape.count() *
            element_bytes(weight_gradient_type(node, first));
  }
  const auto bytes = [](const RowMemory& phase) {
    return phase.workspace_bytes + phase.scratch_bytes;
  };
  const int64_t held = !node.parameters.empty() && falls_back_on_rows(node) ? inputs : 0;
  const int64_t for_weights = bytes(memory.grad_weights);
  const int64_t for_input = bytes(memory.grad_input);
  return inputs + gradients + std::max(for_input, sums + for_weights) <
         sums + std::max(inputs + for_weights, held + gradients + for_input);
}

}  // namespace mantissa
