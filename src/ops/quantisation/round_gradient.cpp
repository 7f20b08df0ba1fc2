// Gradients that were written wider than their readers want them. Rounds them to nearest even, or
// stochastically, at the exponent for their own maximum.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/same_shape.h"

namespace mantissa::ops {
namespace {

// Sets the exponent, then calls round(shift, begin, end), which returns how many were clipped, on
// all threads.
template <typename Round>
void at_exact_exponent(const OpContext& c, const Round& round) {
  const Tensor &wide = c.inputs[0], &rounded = c.grad_inputs[0];
  const auto over_parts = [&](const auto& part) {
    return kernels::parallel_statistics(*c.kernel.pool, wide.count(),
                                        kernels::kRandomElementsPerThread, part);
  };
  const uint64_t maximum =
      over_parts([&](int64_t begin, int64_t end) {
        return kernels::WideStatistics{
            c.kernel.table->rounding->maximum(gradient_of(wide), begin, end), 0};
      }).maximum;
  const int shift = exact_shift(maximum, rounded.bits);
  set_exponent(c, rounded, exact_exponent(maximum, *wide.exponent, rounded.bits));
  *rounded.saturated += over_parts([&](int64_t begin, int64_t end) {
                          return kernels::WideStatistics{0, round(shift, begin, end)};
                        }).saturated;
}

void round_to_nearest(const OpContext& c) {
  at_exact_exponent(c, [&](int shift, int64_t begin, int64_t end) {
    return c.kernel.table->rounding->round_to_nearest(
        {gradient_of(c.inputs[0]), shift, gradient_of(c.grad_inputs[0])}, begin, end);
  });
}

void round_stochastically(const OpContext& c) {
  const Tensor& rounded = c.grad_inputs[0];
  kernels::RoundStochastically args{
      .key = {.seed = c.step.scalars->seed,
              .micro_batch = static_cast<uint32_t>(c.step.scalars->step * c.step.micro_batches +
                                                   c.step.micro_batch),
              .tensor = static_cast<uint32_t>(rounded.key)},
      .in = c.inputs[0].as<int16_t>(),
      .out = gradient_of(rounded)};
  at_exact_exponent(c, [&](int shift, int64_t begin, int64_t end) {
    kernels::RoundStochastically part = args;
    part.shift = shift;
    return c.kernel.table->rounding->round(part, begin, end);
  });
}

}  // namespace

const Op kRoundGradient = {.name = "round_gradient",
                           .infer_shape = same_shape,
                           .integer = {.grad_input = {.run = round_to_nearest},
                                       .kernel = kernel_name<&kernels::KernelTable::rounding>}};
const Op kRoundGradientStochastic = {
    .name = "round_gradient_stochastic",
    .infer_shape = same_shape,
    .integer = {.grad_input = {.run = round_stochastically},
                .kernel = kernel_name<&kernels::KernelTable::rounding>}};

}  // namespace mantissa::ops
