// A value to the width of activations: what comes before linear, convolution and dropout where
// operators that keep mantissas have passed on a wider linear value. Gradients pass as they are.
#include <algorithm>

#include "kernels/parallel_ranges.h"
#include "ops/ops.h"
#include "ops/same_shape.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kGrainBytes = 32 * 1024;

void forward(const OpContext& c) {
  const Mantissas in(c.inputs[0]);
  write_wide(c, *c.inputs[0].exponent, [&](int64_t i) { return in[i]; });
}

void backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  kernels::parallel_ranges(*c.kernel.pool, grad_input.count() * element_bytes(grad_input.type),
                           kGrainBytes, [&](int64_t begin, int64_t end, int64_t) {
                             std::copy(c.grad_output.as<std::byte>() + begin,
                                       c.grad_output.as<std::byte>() + end,
                                       grad_input.as<std::byte>() + begin);
                           });
  *grad_input.exponent = *c.grad_output.exponent;
}

}  // namespace

const Op kRequantise = {.name = "requantise",
                        .traits = {.passes_gradients = true},
                        .infer_shape = same_shape,
                        .forward = forward,
                        .backward_input = backward};

}  // namespace mantissa::ops
