#include "plan/node_operands.h"

#include <algorithm>

#include "plan/value_bits.h"

namespace mantissa {

OpMemory NodeOperands::memory_of(const Node& node) const {
  const auto memory = functions(node).memory;
  if (memory == nullptr) return {};
  return with_shapes(node, [&](const OpShapes& shapes) { return memory(shapes, planning_); });
}

Shape NodeOperands::shape_of(int value) const {
  return graph_.values[value].shape.with_front(options_.micro_batch_size);
}

int NodeOperands::bits_of(int value) const {
  return value_bits(graph_, options_.format, values_.canonical[value]);
}

DataType NodeOperands::type_of(int value) const {
  if (options_.format.is_float()) return DataType::kFloat;
  if (values_.canonical[value] == values_.canonical[graph_.logits]) return DataType::kInt32;
  return bits_of(value) <= 8 ? DataType::kInt8 : DataType::kInt16;
}

DataType NodeOperands::gradient_type(int bits) const {
  if (options_.format.is_float()) return DataType::kFloat;
  return bits <= 8 ? DataType::kInt8 : bits <= 16 ? DataType::kInt16 : DataType::kInt32;
}

int NodeOperands::written_bits(int value, bool wide) const {
  const Format& format = options_.format;
  const int bits = format.nearest_gradients ? format.gradient_bits : 16;
  return wide && values_.read_wide[values_.canonical[value]]
             ? std::max(bits, format.wide_gradient_bits())
             : bits;
}

int NodeOperands::grad_input_bits(const Node& node, int value, int gradient_bits) const {
  return rounds_gradient(node.op->traits) ? written_bits(value, may_write_wide(node))
                                          : gradient_bits;
}

DataType NodeOperands::weight_gradient_type(const Node& node, bool first) const {
  if (options_.format.is_float()) return DataType::kFloat;
  const auto fit = functions(node).sums_fit_int32;
  const bool narrow =
      first && fit != nullptr && options_.micro_batches == 1 && with_shapes(node, fit);
  return narrow ? DataType::kInt32 : DataType::kInt64;
}

bool NodeOperands::input_comes_first(const Node& node, int gradient_bits) const {
  const OpMemory memory = memory_of(node);
  // Sums of several micro-batches are always there.
  if (memory.saved_bytes > 0 || options_.micro_batches > 1) return false;
  int64_t inputs = 0, gradients = 0, sums = 0;
  for (const int input : node.inputs) {
    const int64_t count = shape_of(input).count();
    if (node.op->traits.weights_read_input) inputs += count * element_bytes(type_of(input));
    if (wants_gradient(input)) {
      gradients +=
          count * element_bytes(gradient_type(grad_input_bits(node, input, gradient_bits)));
    }
  }
  for (const int parameter : node.parameters) {
    const bool first = parameter == node.parameters.front();
    sums += graph_.parameters[parameter].shape.count() *
            element_bytes(weight_gradient_type(node, first));
  }
  const auto bytes = [](const PhaseMemory& phase) {
    return phase.workspace_bytes + phase.scratch_bytes;
  };
  const int64_t for_weights = bytes(memory.backward_weights);
  const int64_t for_input = bytes(memory.backward_input);
  return inputs + gradients + std::max(for_input, sums + for_weights) <
         sums + std::max(inputs + for_weights, gradients + for_input);
}

}  // namespace mantissa
