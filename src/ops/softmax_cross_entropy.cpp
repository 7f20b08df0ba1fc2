// The loss: softmax and cross-entropy on wide logits; its gradient is that of the sum over
// examples.
#include <array>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "ops/fp32/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kGrain = 32;  // rows

Result<Shape> infer(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank != 1) return invalid_input("wants one [classes] input");
  if (inputs[0][0] > kernels::kMaximumClasses) {
    return invalid_input("wants at most " + std::to_string(kernels::kMaximumClasses) + " classes");
  }
  return Shape{1};
}

// inputs: logits int32 [N, classes], labels uint8 [N].
kernels::SoftmaxCrossEntropy arguments(const OpContext& c) {
  return {c.inputs[0].as<int32_t>(), c.inputs[1].as<uint8_t>(), *c.inputs[0].exponent,
          c.inputs[0].shape.last()};
}

void forward(const OpContext& c) {
  std::array<kernels::LossSums, kernels::kMaximumParts> partial;
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, c.inputs[0].shape[0], kGrain, [&](int64_t begin, int64_t end, int64_t part) {
        partial[part] = c.kernels->softmax->loss(arguments(c), begin, end);
      });
  for (int64_t part = 0; part < parts; ++part) {
    c.totals->loss_q24 += partial[part].loss_q24;
    c.totals->correct += partial[part].correct;
  }
}

void backward_input(const OpContext& c) {
  const Tensor& grad = c.grad_inputs[0];
  narrow_gradient(c, grad, kernels::kSoftmaxGradientExponent, [&](int shift) {
    return kernels::parallel_statistics(
        *c.kernel.pool, c.inputs[0].shape[0], kGrain, [&](int64_t begin, int64_t end) {
          return c.kernels->softmax->gradient(arguments(c), shift, gradient_of(grad), begin, end);
        });
  });
}

}  // namespace

const Op kSoftmaxCrossEntropy = {.name = "softmax_cross_entropy",
                                 .traits = {.takes_wide = true, .input_reads_input = true},
                                 .infer_shape = infer,
                                 .forward = forward,
                                 .backward_input = backward_input,
                                 .kernel = kernel_name<&kernels::KernelTable::softmax>,
                                 .fp32 = &fp32::kSoftmaxCrossEntropy};

}  // namespace mantissa::ops
