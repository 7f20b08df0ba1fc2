// Stochastic rounding of a gradient that was computed to 16 bits, at the exponent that its own
// maximum asks for.
#include <algorithm>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kGrain = 128 * kernels::kRandomGroup;

Result<Shape> infer(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1) return invalid_input("wants one input");
  return inputs[0];
}

uint64_t largest(const OpContext& c) {
  const auto* in = c.inputs[0].as<int16_t>();
  return kernels::parallel_statistics(
             *c.kernel.pool, c.inputs[0].count(), kGrain,
             [&](int64_t begin, int64_t end) {
               return kernels::WideStatistics{c.kernels->rounding->maximum(in, begin, end), 0};
             })
      .maximum;
}

void round(const OpContext& c) {
  const Tensor &wide = c.inputs[0], &rounded = c.grad_inputs[0];
  const uint64_t maximum = largest(c);
  kernels::RoundStochastically args{.key = {.seed = c.scalars->seed,
                                            .micro_batch = static_cast<uint32_t>(
                                                c.scalars->step * c.micro_batches + c.micro_batch),
                                            .tensor = static_cast<uint32_t>(rounded.slot)},
                                    .in = wide.as<int16_t>(),
                                    .shift = exact_shift(maximum, rounded.bits),
                                    .out = gradient_of(rounded)};
  set_exponent(c, rounded, exact_exponent(maximum, *wide.exponent, rounded.bits));
  *rounded.saturated +=
      kernels::parallel_statistics(
          *c.kernel.pool, wide.count(), kGrain,
          [&](int64_t begin, int64_t end) {
            return kernels::WideStatistics{0, c.kernels->rounding->round(args, begin, end)};
          })
          .saturated;
}

}  // namespace

const Op kRoundGradient = {.name = "round_gradient",
                           .infer_shape = infer,
                           .backward_input = round,
                           .kernel = kernel_name<&kernels::KernelTable::rounding>};

}  // namespace mantissa::ops
