// Dropout: while training each element is dropped with probability p = dropped / 65536 and the rest
// multiplied by 1 / (1 - p) in Q30; else the identity. The mask is not kept: backward computes it
// anew from the key (seed, micro-batch counted over the run, node, element).
#include <algorithm>
#include <array>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "numerics/point_functions.h"
#include "ops/dropout_mask.h"
#include "ops/fp32/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/value_table.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kGrain = 128 * kernels::kRandomGroup;
constexpr int64_t kOne = kDropoutOne;

Result<Shape> infer(const Attributes& attributes, std::span<const Shape> inputs) {
  if (inputs.size() != 1) return invalid_input("wants one input");
  const int64_t dropped = attributes.get("dropped", kOne / 2);
  if (dropped < 0 || dropped >= kOne) {
    return invalid_input("wants dropped (the probability times 65536) from 0 to 65535");
  }
  return inputs[0];
}

OpMemory memory(const OpShapes&, const PlanningContext& planning) {
  return {.forward = {.workspace_bytes = value_table_workspace_bytes(planning.threads)}};
}

// 1 / (1 - p) in Q30, to nearest: below 2^47.
int64_t scale_of(const OpContext& c) {
  return divide_rne(__int128{kOne} << 30, kOne - dropped_of(c));
}

void copy(const OpContext& c) {
  kernels::parallel_ranges(
      *c.kernel.pool, c.output.count(), kGrain, [&](int64_t begin, int64_t end, int64_t) {
        std::copy_n(c.inputs[0].as<int8_t>() + begin, end - begin, c.output.as<int8_t>() + begin);
      });
  *c.output.exponent = *c.inputs[0].exponent;
}

void forward(const OpContext& c) {
  if (!is_training(c.exponent_mode)) return copy(c);
  const auto* in = c.inputs[0].as<int8_t>();
  auto* out = c.output.as<int8_t>();
  kernels::parallel_ranges(
      *c.kernel.pool, c.output.count(), kGrain, [&](int64_t begin, int64_t end, int64_t) {
        for_each_mask(c, begin, end, [&](const int8_t* keep, int64_t at, int64_t count) {
          // What a gradient does under a mask, mantissas of 8 bits do.
          constexpr int kBits = 8;
          kernels::Gradient to{out + at, kBits};
          c.kernels->elementwise->relu_gradient(keep, {in + at, kBits}, to, 0, count);
        });
      });
  const int64_t scale = scale_of(c);
  write_by_table(c, out, make_value_table([&](int64_t q) { return q * scale; }),
                 *c.inputs[0].exponent - 30);
}

void backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  ValueTable factors = {};
  factors[1] = scale_of(c);
  const int64_t in_bytes = element_bytes(c.grad_output.type);
  const int64_t out_bytes = element_bytes(grad_input.type);
  const auto pass = [&](int64_t begin, int64_t end, int shift) {
    kernels::WideStatistics found;
    for_each_mask(c, begin, end, [&](const int8_t* keep, int64_t at, int64_t count) {
      const kernels::ScaleGradient args{
          .grad_out = {c.grad_output.as<std::byte>() + at * in_bytes, c.grad_output.bits},
          .by = keep,
          .factors = factors.data(),
          .shift = shift,
          .grad_in = {grad_input.as<std::byte>() + at * out_bytes, grad_input.bits}};
      found += c.kernels->elementwise->scale_gradient(args, 0, count);
    });
    return found;
  };
  narrow_gradient(c, grad_input, *c.grad_output.exponent - 30, [&](int shift) {
    return kernels::parallel_statistics(
        *c.kernel.pool, grad_input.count(), kGrain,
        [&](int64_t begin, int64_t end) { return pass(begin, end, shift); });
  });
}

Result<Shape> infer_identity(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1) return invalid_input("wants one input");
  return inputs[0];
}

}  // namespace

const Op kIdentity = {.name = "identity", .traits = {.view = true}, .infer_shape = infer_identity};

const Op kDropout = {.name = "dropout",
                     .infer_shape = infer,
                     .memory = memory,
                     .forward = forward,
                     .backward_input = backward,
                     .kernel = kernel_name<&kernels::KernelTable::rounding>,
                     .frozen = &kIdentity,
                     .fp32 = &fp32::kDropout};

}  // namespace mantissa::ops
