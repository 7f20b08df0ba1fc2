// Changes the gradient of weights on a grid before an update takes it. Source: METHODS section 3,
// starts.h.
//
// DoReFa, PACT: the weights stand for tanh w, and w is the trained number. A step of w by its
// gradient is expressed as a step of the weight. Let y be the weight in steps of its grid, counted
// from the middle between its ends -n and n, with tanh w = y tanh(1) / n. Then dy/dw is
// proportional to 1 - tanh^2 w. So a step of y is to first order the gradient by y times the square
// of dy/dw. This needs no tanh: it is a polynomial of y. In units of 2^-24, with all bits of V: t =
// V tanh(1) / (n 2^shift), s = (1 - t^2)^2; the sums become rne(sum * s).
//
// Weights whose gradients stop (WRPN, [0059]): if V is beyond -n and n, the sum becomes zero.
#include "kernels/common/parallel_ranges.h"
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

// sums[i] becomes bent(sums[i], V) of all weights.
template <typename Bent>
void apply_to_all(const OpContext& c, const Bent& bent) {
  const ParameterView& p = c.parameters[0];
  const auto* const weights = p.mantissa.as<int8_t>();
  const auto* const waiting = p.accumulator.as<int16_t>();
  auto* const sums = p.gradient.as<int64_t>();
  kernels::parallel_ranges(*c.kernel.pool, p.mantissa.count(), kUpdateGrain,
                           [&](int64_t begin, int64_t last, int64_t) {
                             for (int64_t i = begin; i < last; ++i) {
                               const int64_t wait = waiting == nullptr ? 0 : waiting[i];
                               sums[i] = bent(sums[i], lazy_value(weights[i], wait, p.lazy_shift));
                             }
                           });
}

void apply(const OpContext& c) {
  const ParameterView& p = c.parameters[0];
  if (p.grid.stops) {
    return apply_to_all(c, [&](int64_t sum, int64_t value) {
      return p.grid.is_stopped(value, p.lazy_shift) ? 0 : sum;
    });
  }
  // The middle may be half a mantissa below zero: then all is counted in halves.
  const int64_t middle = p.grid.low() + p.grid.high();
  const int halves = middle == 0 ? 1 : 2;
  const int64_t unit = int64_t{1} << p.lazy_shift;
  const int64_t end = halves * (p.grid.high() * unit) - middle * unit;
  apply_to_all(c, [&](int64_t sum, int64_t value) {
    const int64_t place = halves * value - middle * unit;
    return scaled(sum, squared_slope(std::clamp(place, -end, end), end));
  });
}

Result<Shape> no_shape(const Attributes&, std::span<const Shape>) {
  return invalid_input("a change of gradients is not a node of a network");
}

}  // namespace

const Op kBendGradient = {.name = "bend_gradient",
                          .traits = {.narrowing = Narrowing::kPassed},
                          .infer_shape = no_shape,
                          .integer = {.forward = {.run = apply}}};

}  // namespace mantissa::ops
