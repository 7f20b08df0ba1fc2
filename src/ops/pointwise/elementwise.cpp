// ReLU and flatten: operators on one value that keep its exponent.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/same_shape.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

void relu_forward(const OpContext& c) {
  kernels::parallel_ranges(*c.kernel.pool, c.output().count(), kernels::kElementsPerThread,
                           [&](int64_t begin, int64_t end, int64_t) {
                             if (!is_bytes(c.output())) {
                               const auto* in = c.inputs[0].as<int16_t>();
                               auto* out = c.output().as<int16_t>();
                               for (int64_t i = begin; i < end; ++i)
                                 out[i] = std::max<int16_t>(0, in[i]);
                               return;
                             }
                             c.kernel.table->elementwise->relu(c.inputs[0].as<int8_t>(),
                                                               c.output().as<int8_t>(), begin, end);
                           });
  *c.output().exponent = *c.inputs[0].exponent;
}

void relu_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  kernels::parallel_ranges(*c.kernel.pool, grad_input.count(), kernels::kElementsPerThread,
                           [&](int64_t begin, int64_t end, int64_t) {
                             mask_gradient(c, c.output(), grad_input, begin, end);
                           });
  *grad_input.exponent = *c.grad_output().exponent;
}

Result<Shape> infer_flatten(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1) return invalid_input("wants one input");
  return Shape{inputs[0].count()};
}

void emit_relu_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_input,
         {e.outputs(), e.grad_outputs(), e.grad_inputs(GradientWidth::kPassed)});
}

}  // namespace

const Op kRelu = {.name = "relu",
                  .traits = {.narrowing = Narrowing::kPassed,
                             .sign = Sign::kNeverNegative,
                             .clips = {.negatives = true},
                             .row_by_row = true},
                  .infer_shape = same_shape,
                  .integer = {.forward = {.run = relu_forward},
                              .grad_input = {.run = relu_backward},
                              .kernel = kernel_name<&kernels::KernelTable::elementwise>},
                  .emit_gradient = emit_relu_gradient,
                  .fp32 = &fp32::kRelu};

// After an inverted batch norm, whose output is the mask of its own gradient.
const Op kNormRelu = {.name = "norm_relu",
                      .traits = {.narrowing = Narrowing::kPassed,
                                 .sign = Sign::kNeverNegative,
                                 .clips = {.negatives = true},
                                 .row_by_row = true},
                      .infer_shape = same_shape,
                      .integer = {.forward = {.run = relu_forward},
                                  .kernel = kernel_name<&kernels::KernelTable::elementwise>},
                      .emit_gradient = [](GradientEmitter& e) { e.leave_mask_to_producer(); },
                      .frozen = &kRelu};

const Op kFlatten = {
    .name = "flatten", .traits = {.sign = Sign::kKept}, .infer_shape = infer_flatten};

}  // namespace mantissa::ops
