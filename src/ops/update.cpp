// Optimisers as instructions: plain SGD and SGD with momentum, by lazy update. Source: METHODS
// section 1, BlockFloat [0135]-[0148]; the integer order stands in kernels/update/update.h.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "numerics/exponent.h"
#include "numerics/fixed_point.h"
#include "numerics/lazy_update.h"
#include "ops/fp32/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

using kernels::Extremes;

constexpr int64_t kGrain = 8192;
// Bits of |g|, and of the terms of `wide`: three terms of 59 bits fit int64.
constexpr int kGradientBits = 31;
constexpr int kTermBits = 59;
// The smallest exponent that shrinking may reach: far below any update that matters.
constexpr int kSmallestWeightExponent = -100;

template <typename Function>
Extremes extremes(const OpContext& c, int64_t count, Function&& function) {
  std::array<Extremes, kernels::kMaximumParts> partial;
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, count, kGrain,
      [&](int64_t begin, int64_t end, int64_t part) { partial[part] = function(begin, end); });
  Extremes total;
  for (int64_t part = 0; part < parts; ++part) {
    total.low = std::min(total.low, partial[part].low);
    total.high = std::max(total.high, partial[part].high);
    total.saturated += partial[part].saturated;
  }
  return total;
}

uint64_t largest(const Extremes& e) { return std::max(magnitude(e.low), magnitude(e.high)); }

// Multipliers of g, v and V, so that all three terms have one exponent, which is returned.
int choose_multipliers(const OpContext& c, const ParameterView& p, int gradient_exponent,
                       kernels::Update& update) {
  const StepScalars& s = *c.scalars;
  struct Term {
    double coefficient;
    int bits;
    int64_t* multiplier;
  };
  const double decay = p.decays ? s.weight_decay : 0;
  const Term terms[] = {
      {std::ldexp(s.gradient_scale, gradient_exponent), kGradientBits, &update.gradient_multiplier},
      {p.moments[0].empty() ? 0 : std::ldexp(s.momentum, *p.moments[0].exponent), 15,
       &update.velocity_multiplier},
      {std::ldexp(decay, *p.mantissa.exponent - p.lazy_shift), update.weight_bits + p.lazy_shift,
       &update.decay_multiplier}};
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

// Requantises the direction to update.direction_bits; returns its exponent.
int choose_direction_shift(uint64_t maximum, int wide_exponent, kernels::Update& update) {
  if (maximum == 0) return zero_exponent(update.direction_bits);
  const int shift = exact_shift(maximum, update.direction_bits);
  update.direction_shift = std::max(shift, kExponentMin - wide_exponent);
  return wide_exponent + update.direction_shift;
}

void apply(const OpContext& c) {
  const ParameterView& p = c.parameters[0];
  const int64_t count = p.mantissa.count();
  const kernels::UpdateKernels& kernel = *c.kernels->update;
  kernels::Update update{
      .gradient = p.gradient.as<int64_t>(),
      .weights = p.mantissa.data,
      .weight_bits = p.mantissa.bits,
      .accumulator = p.accumulator.as<int16_t>(),
      .shift = p.lazy_shift,
      .velocity = p.moments[0].as<int16_t>(),
      .direction_bits = p.moments[0].empty() ? 32 : 16,
  };
  const uint64_t gradient_maximum = largest(extremes(c, count, [&](int64_t begin, int64_t end) {
    return kernel.gradient_extremes(update.gradient, begin, end);
  }));
  if (gradient_maximum >= static_cast<uint64_t>(kWideLimit / 2)) {
    c.totals->gradient_overflow = true;
    return;
  }
  update.gradient_shift = exact_shift(gradient_maximum, kGradientBits + 1);
  const int wide_exponent =
      choose_multipliers(c, p, *p.gradient.exponent + update.gradient_shift, update);
  const uint64_t wide_maximum = largest(extremes(c, count, [&](int64_t begin, int64_t end) {
    return kernel.direction_extremes(update, begin, end);
  }));
  const int direction_exponent = choose_direction_shift(wide_maximum, wide_exponent, update);

  const int rate_shift = fixed_point_shift(c.scalars->learning_rate, 31);
  update.rate_multiplier = to_fixed_point(c.scalars->learning_rate, rate_shift, mantissa_limit(32));
  update.update_shift = *p.mantissa.exponent - p.lazy_shift - (direction_exponent - rate_shift);
  const Extremes values = extremes(
      c, count, [&](int64_t begin, int64_t end) { return kernel.step(update, begin, end); });

  const int most_halvings = std::max(0, *p.mantissa.exponent - kSmallestWeightExponent);
  const int growth =
      lazy_growth(values.low, values.high, update.weight_bits, p.lazy_shift, most_halvings);
  kernels::parallel_ranges(*c.kernel.pool, count, kGrain, [&](int64_t begin, int64_t end, int64_t) {
    kernel.commit(update, growth, begin, end);
  });
  set_exponent(c, p.mantissa, *p.mantissa.exponent + growth);
  if (!p.moments[0].empty()) set_exponent(c, p.moments[0], direction_exponent);
  *p.mantissa.saturated += values.saturated;
  // The accumulator's exponent of the next step; this step's has been used for the last time.
  *p.gradient.exponent =
      static_cast<int16_t>(next_accumulator_exponent(*p.gradient.exponent, gradient_maximum));
}

Result<Shape> no_shape(const Attributes&, std::span<const Shape>) {
  return invalid_input("an update is not a node of a network");
}

}  // namespace

const Op kUpdateSgd = {.name = "update_sgd",
                       .infer_shape = no_shape,
                       .forward = apply,
                       .kernel = kernel_name<&kernels::KernelTable::update>,
                       .fp32 = &fp32::kUpdateSgd};
const Op kUpdateMomentum = {.name = "update_momentum",
                            .infer_shape = no_shape,
                            .forward = apply,
                            .kernel = kernel_name<&kernels::KernelTable::update>,
                            .fp32 = &fp32::kUpdateMomentum};

}  // namespace mantissa::ops
