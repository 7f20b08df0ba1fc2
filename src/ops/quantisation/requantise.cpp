// A value narrowed to the width of activations: before linear, convolution and dropout, if
// operators that keep mantissas have passed on a wider linear value. Gradients pass as they are.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/same_shape.h"
#include "ops/value_table.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kCopiedBytesPerThread = 32 * 1024;

OpMemory memory(const OpShapes&, const PlanningContext& planning) {
  return {.forward = {.workspace_bytes = value_table_workspace_bytes(planning.threads)}};
}

void forward_rows(const OpContext& c) {
  const Tensor& in = c.inputs[0];
  const Mantissas mantissas(in);
  const int64_t channels = c.output().shape.last();
  const auto exponent_at = [&](int64_t row) { return in.row_exponent(row); };
  write_rows(c, exponent_at, [&](int64_t row, int, int64_t* wide) {
    for (int64_t i = 0; i < channels; ++i) wide[i] = mantissas[row * channels + i];
  });
}

void forward(const OpContext& c) {
  if (has_rows(c.output())) return forward_rows(c);
  const Tensor& in = c.inputs[0];
  if (is_bytes(in) && is_bytes(c.output())) {
    const ValueTable table = make_value_table([](int64_t q) { return q; });
    return write_by_table(c, in.as<int8_t>(), table, *in.exponent);
  }
  const Mantissas mantissas(in);
  write_wide(c, *in.exponent, [&](int64_t i) { return mantissas[i]; });
}

void backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  kernels::parallel_ranges(*c.kernel.pool, grad_input.count() * element_bytes(grad_input.type),
                           kCopiedBytesPerThread, [&](int64_t begin, int64_t end, int64_t) {
                             std::copy(c.grad_output().as<std::byte>() + begin,
                                       c.grad_output().as<std::byte>() + end,
                                       grad_input.as<std::byte>() + begin);
                           });
  *grad_input.exponent = *c.grad_output().exponent;
}

}  // namespace

const Op kRequantise = {
    .name = "requantise",
    .traits = {.sign = Sign::kKept, .takes = TakenExponents::kOfRows, .row_by_row = true},
    .infer_shape = same_shape,
    .integer = {.memory = memory,
                .forward = {.run = forward},
                .grad_input = {.run = backward},
                .kernel = kernel_name<&kernels::KernelTable::elementwise>},
    .emit_gradient = emit_passed_gradient,
    .fp32 = &fp32::kPass};

}  // namespace mantissa::ops
