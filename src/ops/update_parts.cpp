#include "ops/update_parts.h"

#include <algorithm>
#include <cmath>

#include "numerics/exponent.h"
#include "numerics/fixed_point.h"
#include "numerics/lazy_update.h"
#include "ops/narrowing.h"

namespace mantissa::ops {
namespace {

using kernels::Extremes;

// Bits of the terms of a sum: three of 59 bits fit int64.
constexpr int kTermBits = 59;
// The smallest exponent that shrinking may reach: far below any update that matters.
constexpr int kSmallestWeightExponent = -100;

}  // namespace

Extremes combined(const Extremes& a, const Extremes& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.saturated + b.saturated};
}

uint64_t largest(const Extremes& e) { return std::max(magnitude(e.low), magnitude(e.high)); }

int choose_multipliers(std::span<const Term> terms) {
  bool any = false;
  int exponent = 0;
  for (const Term& term : terms) {
    if (term.coefficient == 0) continue;
    const int wanted = term.bits - kTermBits - fixed_point_shift(term.coefficient, 0);
    exponent = any ? std::max(exponent, wanted) : wanted;
    any = true;
  }
  for (const Term& term : terms) {
    *term.multiplier =
        to_fixed_point(term.coefficient, -exponent, int64_t{1} << (kTermBits - term.bits + 1));
  }
  return exponent;
}

Narrowed narrow(uint64_t maximum, int wide_exponent, int bits) {
  if (maximum == 0) return {0, zero_exponent(bits)};
  const int shift = std::max(exact_shift(maximum, bits), kExponentMin - wide_exponent);
  return {shift, wide_exponent + shift};
}

kernels::Update update_of(const OpContext& c) {
  const ParameterView& p = c.parameters[0];
  return {.gradient = p.gradient.as<int64_t>(),
          .weights = p.mantissa.data,
          .weight_bits = p.mantissa.bits,
          .accumulator = p.accumulator.as<int16_t>(),
          .shift = p.lazy_shift,
          .direction_bits = 32,
          .stochastic = p.rounds_stochastically,
          .key = {.stream = RandomStream::kUpdate,
                  .seed = c.scalars->seed,
                  .micro_batch = static_cast<uint32_t>(c.scalars->step),
                  .tensor = static_cast<uint32_t>(p.index)}};
}

bool measure_gradient(const OpContext& c, kernels::Update& update, uint64_t& maximum) {
  maximum = largest(extremes(c, c.parameters[0].mantissa.count(), [&](int64_t begin, int64_t end) {
    return c.kernels->update->gradient_extremes(update.gradient, begin, end);
  }));
  update.gradient_shift = exact_shift(maximum, kGradientBits + 1);
  if (maximum < static_cast<uint64_t>(kWideLimit / 2)) return true;
  c.totals->gradient_overflow = true;
  return false;
}

Term gradient_term(const OpContext& c, kernels::Update& update) {
  return {std::ldexp(c.scalars->gradient_scale * c.totals->gradient_factor,
                     *c.parameters[0].gradient.exponent + update.gradient_shift),
          kGradientBits, &update.gradient_multiplier};
}

Term decay_term(const OpContext& c, kernels::Update& update) {
  const ParameterView& p = c.parameters[0];
  const double decay = p.decays ? c.scalars->weight_decay : 0;
  return {std::ldexp(decay, *p.mantissa.exponent - p.lazy_shift), update.weight_bits + p.lazy_shift,
          &update.decay_multiplier};
}

DirectionExponents make_direction(const OpContext& c, std::span<const Term> terms,
                                  kernels::Update& update) {
  const int wide_exponent = choose_multipliers(terms);
  const Extremes wide =
      extremes(c, c.parameters[0].mantissa.count(), [&](int64_t begin, int64_t end) {
        return c.kernels->update->direction_extremes(update, begin, end);
      });
  const Narrowed narrowed = narrow(largest(wide), wide_exponent, update.direction_bits);
  update.direction_shift = narrowed.shift;
  return {wide_exponent, narrowed.exponent};
}

void take_step(const OpContext& c, kernels::Update& update, int direction_exponent,
               uint64_t gradient_maximum) {
  const ParameterView& p = c.parameters[0];
  const int64_t count = p.mantissa.count();
  const kernels::UpdateKernels& kernel = *c.kernels->update;
  const int rate_shift = fixed_point_shift(c.scalars->learning_rate, 31);
  update.rate_multiplier = to_fixed_point(c.scalars->learning_rate, rate_shift, mantissa_limit(32));
  update.update_shift = *p.mantissa.exponent - p.lazy_shift - (direction_exponent - rate_shift);
  const Extremes values = extremes(
      c, count, [&](int64_t begin, int64_t end) { return kernel.step(update, begin, end); });

  const int most_halvings = std::max(0, *p.mantissa.exponent - kSmallestWeightExponent);
  const int growth =
      lazy_growth(values.low, values.high, update.weight_bits, p.lazy_shift, most_halvings);
  kernels::parallel_ranges(
      *c.kernel.pool, count, kUpdateGrain,
      [&](int64_t begin, int64_t end, int64_t) { kernel.commit(update, growth, begin, end); });
  set_exponent(c, p.mantissa, *p.mantissa.exponent + growth);
  *p.mantissa.saturated += values.saturated;
  // The accumulator's exponent of the next step; this step's has been used for the last time.
  *p.gradient.exponent =
      static_cast<int16_t>(next_accumulator_exponent(*p.gradient.exponent, gradient_maximum));
}

}  // namespace mantissa::ops
