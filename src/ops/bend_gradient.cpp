// The gradient of weights that stand for tanh w of the numbers w that are trained (DoReFa, PACT): a
// step of w by its gradient, as a step of the weight. Source: METHODS section 3, starts.h.
//
// With y the weight in steps of its grid, n its largest mantissa and tanh w = y tanh(1) / n, dy/dw
// is proportional to 1 - tanh^2 w. So a step of y is to first order the gradient by y times the
// square of that, which needs no tanh: it is a polynomial of y. In units of 2^-24, with all bits of
// V: t = V tanh(1) / (n 2^shift), s = (1 - t^2)^2; the sums become rne(sum * s).
#include "kernels/parallel_ranges.h"
#include "numerics/lazy_update.h"
#include "numerics/rounding.h"
#include "ops/gradient_rows.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kTanhOne = 0x30bdf56a29e728abLL;  // tanh(1) * 2^62, to nearest
constexpr int kFactorBits = 24;
constexpr int64_t kOne = int64_t{1} << kFactorBits;

// |value| <= end.
int64_t squared_slope(int64_t value, int64_t end) {
  const int64_t tangent = (value * (kTanhOne / end)) >> (62 - kFactorBits);
  const int64_t slope = kOne - ((tangent * tangent) >> kFactorBits);
  return (slope * slope) >> kFactorBits;
}

// rne(sum * factor / 2^24); 0 <= factor <= 2^24.
int64_t scaled(int64_t sum, int64_t factor) {
  const auto product = static_cast<__int128>(sum) * factor;
  const auto floor = static_cast<int64_t>(product >> kFactorBits);
  const auto rest = static_cast<int64_t>(product & (kOne - 1));
  const bool up = 2 * rest > kOne || (2 * rest == kOne && floor % 2 != 0);
  return floor + (up ? 1 : 0);
}

void apply(const OpContext& c) {
  const ParameterView& p = c.parameters[0];
  const int64_t end = mantissa_limit(p.mantissa.bits) * (int64_t{1} << p.lazy_shift);
  const auto* const weights = p.mantissa.as<int8_t>();
  const auto* const waiting = p.accumulator.as<int16_t>();
  auto* const sums = p.gradient.as<int64_t>();
  kernels::parallel_ranges(
      *c.kernel.pool, p.mantissa.count(), kUpdateGrain, [&](int64_t begin, int64_t last, int64_t) {
        for (int64_t i = begin; i < last; ++i) {
          const int64_t value =
              lazy_value(weights[i], waiting == nullptr ? 0 : waiting[i], p.lazy_shift);
          sums[i] = scaled(sums[i], squared_slope(std::clamp(value, -end, end), end));
        }
      });
}

Result<Shape> no_shape(const Attributes&, std::span<const Shape>) {
  return invalid_input("a change of gradients is not a node of a network");
}

}  // namespace

const Op kBendGradient = {.name = "bend_gradient",
                          .traits = {.keeps_exponent = true},
                          .infer_shape = no_shape,
                          .forward = apply};

}  // namespace mantissa::ops
