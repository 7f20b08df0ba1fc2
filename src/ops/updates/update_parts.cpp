#include "ops/updates/update_parts.h"

#include <algorithm>
#include <numeric>

#include "numerics/exponent.h"
#include "numerics/lazy_update.h"
#include "ops/narrowing.h"

namespace mantissa::ops {
namespace {

using kernels::Extremes;

// Bits of the terms of a sum: three of 59 bits fit int64.
constexpr int kTermBits = 59;
// The smallest exponent that shrinking may reach: far below any update that matters.
constexpr int kSmallestWeightExponent = -100;

// V = V * 2^growth, split by the grid, of the elements [begin, end). W are int8.
void split_values(const kernels::Update& update, const WeightGrid& grid, int growth, int64_t begin,
                  int64_t end) {
  auto* const weights = static_cast<int8_t*>(update.weights);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t waiting = update.accumulator == nullptr ? 0 : update.accumulator[i];
    const int64_t value = lazy_value(weights[i], waiting, update.shift) * (int64_t{1} << growth);
    const LazySplit split = grid.split(value, update.shift);
    weights[i] = static_cast<int8_t>(split.weight);
    if (update.accumulator != nullptr) {
      update.accumulator[i] = static_cast<int16_t>(split.accumulator);
    }
  }
}

// After the step of a block on a fixed grid. The step left V' with these extremes, split as without
// a grid. Splits V' by the grid, if that differs. If some V' does not fit W's memory, the unit of
// all is doubled for a moment, and they lose as many of their lowest bits.
template <typename EachRange>
void split_block(const kernels::UpdateKernels& kernel, const kernels::Update& update,
                 const WeightGrid& grid, const Extremes& values, EachRange&& each_range) {
  const int64_t unit = int64_t{1} << update.shift;
  const bool is_within = values.low >= grid.low() * unit && values.high <= grid.high() * unit;
  if (is_within && !grid.is_sign()) return;
  const uint64_t most = std::max(magnitude(values.low), magnitude(values.high));
  int growth = 0;
  if (most > static_cast<uint64_t>(INT8_MAX * unit)) {
    growth = lazy_growth(values.low, values.high, update.weight_bits, update.shift, 0);
    each_range(!update.replaces_velocity(),
               [&](const kernels::GradientSums& sums, int64_t begin, int64_t end) {
                 kernels::Update own = update;
                 own.gradient = sums;
                 kernel.change_unit(own, growth, begin, end);
                 return Extremes{};
               });
  }
  each_range(false, [&](const kernels::GradientSums&, int64_t begin, int64_t end) {
    split_values(update, grid, growth, begin, end);
    return Extremes{};
  });
}

// Steps a block with one exponent, which it may change, but not to one below `smallest_exponent`;
// returns how many directions were clipped. `largest_exponent` is the largest of all blocks before
// the step. `each_range` calls function(sums, begin, end) on all elements, in parts, and combines
// the results. If told that the sums are not read, it need not have them.
template <typename EachRange>
int64_t step_block(const OpContext& c, const kernels::Update& of_all, int step_exponent,
                   int largest_exponent, int smallest_exponent, int16_t& exponent,
                   EachRange&& each_range) {
  const kernels::UpdateKernels& kernel = *c.kernel.table->update;
  kernels::Update update = with_decay_of_block(of_all, largest_exponent - exponent);
  update.update_shift = exponent - update.shift - step_exponent;
  const auto on_range = [&](auto&& function) {
    return [&, function](const kernels::GradientSums& sums, int64_t begin, int64_t end) {
      kernels::Update own = update;
      own.gradient = sums;
      return function(own, begin, end);
    };
  };
  const Extremes values = each_range(true, on_range(kernel.step));
  if (const WeightGrid& grid = c.parameters[0].grid; grid.bits > 0) {
    split_block(kernel, update, grid, values, each_range);
    return values.saturated;
  }
  const int growth = lazy_growth(values.low, values.high, update.weight_bits, update.shift,
                                 std::max(0, exponent - smallest_exponent));
  if (growth == 0) return values.saturated;
  const auto change_unit = [&](const kernels::Update& own, int64_t begin, int64_t end) {
    kernel.change_unit(own, growth, begin, end);
    return Extremes{};
  };
  each_range(!update.replaces_velocity(), on_range(change_unit));
  exponent = static_cast<int16_t>(exponent + growth);
  return values.saturated;
}

// A gradient whose sums have these extremes.
MeasuredGradient gradient_with(const ParameterView& parameter, const Extremes& found) {
  const int to_fixed = *parameter.fixed_exponent - *parameter.gradient.exponent;
  const uint64_t maximum = std::max(magnitude(rescale_rne(found.low, to_fixed)),
                                    magnitude(rescale_rne(found.high, to_fixed)));
  const int shift = exact_shift(maximum, kGradientBits + 1);
  // g is the sum shifted once. A left shift to the fixed exponent is at least as large as the right
  // shift to g. A right shift leaves 31 bits, and no shift to g follows. Sums of zero alone may be
  // shifted in any way.
  return {maximum, std::max(shift + to_fixed, -kGradientBits), *parameter.fixed_exponent + shift};
}

// The gradient of an update, whose gradient_shift it sets, if sums did not outgrow their
// accumulator.
std::optional<MeasuredGradient> usable(const OpContext& c, const MeasuredGradient& gradient,
                                       kernels::Update& update) {
  update.gradient_shift = gradient.shift;
  if (has_overflowed(c, gradient)) return {};
  return gradient;
}

// The value of one unit of the sums in the direction.
Real gradient_unit(const OpContext& c, int exponent) {
  return ldexp(Real(c.step.scalars->gradient_scale) * Real(c.step.totals->gradient_factor),
               exponent);
}

// The coefficient of the decay per weight.
Real weight_decay(const OpContext& c) {
  return c.parameters[0].decays ? Real(c.step.scalars->weight_decay) : Real();
}

// The most that the decay adds to a direction: V has the bits of the weights plus the shift.
Real most_decay(const OpContext& c) {
  const Tensor& weights = c.parameters[0].mantissa;
  return ldexp(abs(weight_decay(c)), weights.largest_exponent() + weights.bits - 1);
}

// All elements, on all threads.
int64_t step_tensor(const OpContext& c, const kernels::Update& update, int step_exponent) {
  const ParameterView& p = c.parameters[0];
  const auto all = [&](bool reads_sums, auto&& function) {
    if (reads_sums) return over_gradient<Extremes>(c, p, function, combined);
    return over_parameter<Extremes>(
        c, p.mantissa.count(),
        [&](int64_t begin, int64_t end) { return function(sums_of(p), begin, end); }, combined);
  };
  return step_block(c, update, step_exponent, *p.mantissa.exponent, kSmallestWeightExponent,
                    *p.mantissa.exponent, all);
}

// Whole blocks on each thread.
int64_t step_blocks(const OpContext& c, const kernels::Update& update, int step_exponent) {
  const Tensor& weights = c.parameters[0].mantissa;
  const int64_t length = weights.count() / weights.blocks;
  const int largest = weights.largest_exponent();
  const int smallest = std::max(kSmallestWeightExponent, largest - kMostChannelSpread);
  std::array<int64_t, kernels::kMaximumParts> saturated = {};
  kernels::parallel_ranges(
      *c.kernel.pool, weights.blocks, std::max<int64_t>(1, kUpdateGrain / length),
      [&](int64_t first, int64_t last, int64_t part) {
        for (int64_t block = first; block < last; ++block) {
          const auto whole = [&](bool, auto&& function) {
            return function(update.gradient, block * length, (block + 1) * length);
          };
          saturated[part] += step_block(c, update, step_exponent, largest, smallest,
                                        weights.exponent[block], whole);
        }
      });
  return std::accumulate(saturated.begin(), saturated.end(), int64_t{0});
}

}  // namespace

kernels::Update with_decay_of_block(kernels::Update update, int below) {
  update.decay_multiplier = rescale_rne(update.decay_multiplier, below);
  return update;
}

Extremes combined(const Extremes& a, const Extremes& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.saturated + b.saturated};
}

uint64_t largest(const Extremes& e) { return std::max(magnitude(e.low), magnitude(e.high)); }

int choose_multipliers(std::span<const Term> terms) {
  bool any = false;
  int exponent = 0;
  for (const Term& term : terms) {
    if (term.coefficient.is_zero()) continue;
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
  return {.gradient = sums_of(p),
          .weights = p.mantissa.data,
          .weight_bits = p.mantissa.bits,
          .accumulator = p.accumulator.as<int16_t>(),
          .shift = p.lazy_shift,
          .direction_bits = 32,
          .stochastic = p.rounds_stochastically,
          .key = {.stream = RandomStream::kUpdate,
                  .seed = c.step.scalars->seed,
                  .micro_batch = static_cast<uint32_t>(c.step.scalars->step),
                  .tensor = static_cast<uint32_t>(p.index)}};
}

MeasuredGradient measure_sums(const OpContext& c, const ParameterView& parameter) {
  return gradient_with(
      parameter,
      over_gradient<Extremes>(c, parameter, c.kernel.table->update->gradient_extremes, combined));
}

bool has_overflowed(const OpContext& c, const MeasuredGradient& measured) {
  if (measured.maximum < static_cast<uint64_t>(kWideLimit / 2)) return false;
  c.step.totals->gradient_overflow = true;
  return true;
}

std::optional<MeasuredGradient> measure_gradient(const OpContext& c, kernels::Update& update) {
  return usable(c, measure_sums(c, c.parameters[0]), update);
}

std::optional<MeasuredGradient> measure_gradient(const OpContext& c, const Real& momentum,
                                                 kernels::Update& update, DirectionBounds& bounds) {
  using kernels::SketchExtremes;
  const ParameterView& p = c.parameters[0];
  const Tensor& velocity = p.moments[0];
  if (velocity.type == DataType::kInt32) return measure_gradient(c, update);
  if (reads_by_rows(p)) set_row_exponent(c, p);
  // As many bits as the last step's gradient had.
  const int exponent = *p.gradient.exponent;
  const ScaledSketch sketch = sketch_direction(
      gradient_unit(c, exponent), ldexp(momentum, *velocity.exponent), velocity.as<int16_t>(),
      *p.fixed_exponent + kGradientAccumulatorBits - exponent, update.gradient.bits);
  const auto found = over_gradient<SketchExtremes>(
      c, p,
      [&](const kernels::GradientSums& sums, int64_t begin, int64_t end) {
        return c.kernel.table->update->sketch_extremes(sums, sketch.sketch, begin, end);
      },
      [](const SketchExtremes& a, const SketchExtremes& b) {
        return SketchExtremes{combined(a.gradient, b.gradient), combined(a.direction, b.direction)};
      });
  bounds = bounds_of(sketch, found, most_decay(c));
  return usable(c, gradient_with(p, found.gradient), update);
}

DirectionBounds gradient_bounds(const OpContext& c, const MeasuredGradient& gradient, bool decays) {
  const Real unit = gradient_unit(c, *c.parameters[0].fixed_exponent);
  const Real rest = decays ? most_decay(c) : Real();
  const auto maximum = static_cast<int64_t>(gradient.maximum);  // rounded
  return {unit * Real(maximum - 1) - rest, unit * Real(maximum + 1) + rest};
}

Term gradient_term(const OpContext& c, const MeasuredGradient& gradient, kernels::Update& update) {
  return {gradient_unit(c, gradient.exponent), kGradientBits, &update.gradient_multiplier};
}

Term decay_term(const OpContext& c, kernels::Update& update) {
  const ParameterView& p = c.parameters[0];
  return {ldexp(weight_decay(c), p.mantissa.largest_exponent() - p.lazy_shift),
          update.weight_bits + p.lazy_shift, &update.decay_multiplier};
}

DirectionExponents narrow_direction(const OpContext& c, kernels::Update& update,
                                    int wide_exponent) {
  const auto wide = over_blocks<Extremes>(
      c, update,
      [&](const kernels::Update& own, int64_t begin, int64_t end) {
        return c.kernel.table->update->direction_extremes(own, begin, end);
      },
      combined);
  const uint64_t maximum = largest(wide);
  const Narrowed narrowed = narrow(maximum, wide_exponent, update.direction_bits);
  update.direction_shift = narrowed.shift;
  return {wide_exponent, narrowed.exponent, maximum == 0};
}

DirectionExponents choose_direction(const OpContext& c, std::span<const Term> terms,
                                    const DirectionBounds& bounds, kernels::Update& update) {
  const int wide_exponent = choose_multipliers(terms);
  const WideBounds wide = in_wide_units(bounds, wide_exponent);
  if (wide.least > 0) {
    const auto narrowed = [&](int64_t largest) {
      return narrow(static_cast<uint64_t>(largest), wide_exponent, update.direction_bits);
    };
    const Narrowed least = narrowed(wide.least);
    if (least.shift == narrowed(wide.most).shift) {
      update.direction_shift = least.shift;
      return {wide_exponent, least.exponent};
    }
  }
  return narrow_direction(c, update, wide_exponent);
}

void take_step(const OpContext& c, kernels::Update& update, int direction_exponent,
               uint64_t gradient_maximum) {
  const ParameterView& p = c.parameters[0];
  const Real rate = Real(c.step.scalars->learning_rate) * Real(c.parameters[0].rate_factor);
  const int rate_shift = fixed_point_shift(rate, 31);
  update.rate_multiplier = to_fixed_point(rate, rate_shift, mantissa_limit(32));
  const int step_exponent = direction_exponent - rate_shift;
  *p.mantissa.saturated += p.mantissa.blocks == 1 ? step_tensor(c, update, step_exponent)
                                                  : step_blocks(c, update, step_exponent);
  for (int64_t block = 0; block < p.mantissa.blocks; ++block) {
    p.mantissa.exponent[block] = checked_exponent(c, p.mantissa.exponent[block]);
  }
  // The accumulator's exponent of the next step; this step's has been used for the last time.
  *p.fixed_exponent =
      static_cast<int16_t>(next_accumulator_exponent(*p.fixed_exponent, gradient_maximum));
}

}  // namespace mantissa::ops
