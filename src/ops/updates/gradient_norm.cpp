// Gradient clipping by global norm: the Euclidean norm over the gradients of all parameters, and
// the factor by which the updates that follow shrink them.
#include <algorithm>

#include "numerics/exponent.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/updates/update_parts.h"

namespace mantissa::ops {
namespace {

// The sum of squares of one parameter's gradient: exact over mantissas of 31 bits, rounded once.
Real sum_of_squares(const OpContext& c, const ParameterView& parameter) {
  const kernels::GradientSums sums = sums_of(parameter);
  const MeasuredGradient measured = measure_sums(c, parameter);
  if (has_overflowed(c, measured)) return {};
  const auto total = over_parameter<kernels::SquareSum>(
      c, parameter.gradient.count(),
      [&](int64_t begin, int64_t end) {
        return c.kernel.table->update->sum_of_squares(sums, measured.shift, begin, end);
      },
      [](const kernels::SquareSum& a, const kernels::SquareSum& b) {
        return kernels::SquareSum{a.low + b.low, a.high + b.high};
      });
  const auto exact = (static_cast<unsigned __int128>(total.high) << 32) + total.low;
  return ldexp(Real(exact), 2 * measured.exponent);
}

void apply(const OpContext& c) {
  Real sum;
  for (const ParameterView& p : c.parameters) sum = sum + sum_of_squares(c, p);
  note_gradient_norm(c, sum);
}

Result<Shape> no_shape(const Attributes&, std::span<const Shape>) {
  return invalid_input("the gradient's norm is not a node of a network");
}

}  // namespace

void note_gradient_norm(const OpContext& c, const Real& sum_of_squares) {
  constexpr Real kSmallestNorm(1e-6);  // as in PyTorch: no division by zero
  const Real norm = sqrt(sum_of_squares) * Real(c.step.scalars->gradient_scale);
  const Real factor = Real(c.step.scalars->clip_norm) / (norm + kSmallestNorm);
  c.step.totals->gradient_norm = norm.to_double();
  c.step.totals->gradient_factor = std::min(Real(1), factor).to_double();
}

const Op kGradientNorm = {
    .name = "gradient_norm",
    .traits = {.narrowing = Narrowing::kPassed},
    .infer_shape = no_shape,
    .integer = {.forward = {.run = apply}, .kernel = kernel_name<&kernels::KernelTable::update>},
    .fp32 = &fp32::kGradientNorm};

}  // namespace mantissa::ops
