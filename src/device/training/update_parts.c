#include "device/training/update_parts.h"

#include "reference/numerics/lazy.h"

enum {
  kSmallestWeightExponent = -100,  // far below any update that matters
  kMostChannelSpread = 12
};

uint64_t dev_largest_of(const RefExtremes* e) {
  const uint64_t low = ref_magnitude(e->low), high = ref_magnitude(e->high);
  return low > high ? low : high;
}

int dev_largest_exponent_of(const DevParameter* p) {
  int largest = p->exponents[0];
  for (int32_t b = 1; b < p->blocks; ++b) largest = (int)ref_larger(largest, p->exponents[b]);
  return largest;
}

RefUpdate dev_update_of(const DevStep* step, const DevParameter* p) {
  const RefUpdate update = {.gradient = {p->sums, p->sum_bits},
                            .weights = p->weights,
                            .weight_bits = p->bits,
                            .accumulator = p->accumulator,
                            .shift = p->shift,
                            .velocity = {NULL, 16},
                            .direction_bits = 32,
                            .stochastic = p->stochastic,
                            .key = {7, step->scalars.seed, (uint32_t)step->scalars.step, p->index}};
  return update;
}

RefUpdate dev_of_block(const DevParameter* p, const RefUpdate* update, int32_t block) {
  RefUpdate own = *update;
  const int below = dev_largest_exponent_of(p) - p->exponents[block];
  own.decay_multiplier = ref_rescale_rne(own.decay_multiplier, below);
  return own;
}

// g is the sum shifted once. A left shift to the fixed exponent is at least as large as the right
// shift to g.
DevGradient dev_measure(DevStep* step, const DevParameter* p, RefUpdate* update) {
  const RefExtremes found = ref_gradient_extremes(&update->gradient, 0, p->count);
  const int to_fixed = *p->fixed_exponent - *p->sums_exponent;
  const RefExtremes fixed = {ref_rescale_rne(found.low, to_fixed),
                             ref_rescale_rne(found.high, to_fixed), 0};
  const uint64_t maximum = dev_largest_of(&fixed);
  const int shift = ref_exact_shift(maximum, kGradientBits + 1);
  update->gradient_shift = (int)ref_larger(shift + to_fixed, -kGradientBits);
  const bool overflows = maximum >= (uint64_t)REF_WIDE_LIMIT / 2;
  if (overflows) step->gradient_overflow = true;
  const DevGradient gradient = {maximum, *p->fixed_exponent + shift, !overflows};
  return gradient;
}

DevTerm dev_gradient_term(const DevStep* step, const DevGradient* g, RefUpdate* update) {
  const DevTerm term = {ref_real_scaled(step->scalars.gradient_scale, g->exponent), kGradientBits,
                        &update->gradient_multiplier};
  return term;
}

DevTerm dev_decay_term(const DevStep* step, const DevParameter* p, RefUpdate* update) {
  const RefReal decay = p->decays ? step->scalars.weight_decay : ref_real(0);
  const DevTerm term = {ref_real_scaled(decay, dev_largest_exponent_of(p) - p->shift),
                        update->weight_bits + p->shift, &update->decay_multiplier};
  return term;
}

int dev_choose_multipliers(const DevTerm* terms, int count) {
  bool any = false;
  int exponent = 0;
  for (int i = 0; i < count; ++i) {
    if (terms[i].coefficient.mantissa == 0) continue;
    const int wanted = terms[i].bits - kTermBits - ref_fixed_point_shift(terms[i].coefficient, 0);
    exponent = any ? (int)ref_larger(exponent, wanted) : wanted;
    any = true;
  }
  for (int i = 0; i < count; ++i) {
    const int64_t limit = INT64_C(1) << (kTermBits - terms[i].bits + 1);
    *terms[i].multiplier = ref_fixed_point(terms[i].coefficient, -exponent, limit);
  }
  return exponent;
}

DevNarrowed dev_narrowed(uint64_t maximum, int wide_exponent, int bits) {
  const int exact = ref_exact_shift(maximum, bits);
  const int shift = (int)ref_larger(exact, REF_EXPONENT_MIN - wide_exponent);
  const DevNarrowed narrowed = {maximum == 0 ? 0 : shift,
                                maximum == 0 ? ref_zero_exponent(bits) : wide_exponent + shift};
  return narrowed;
}

static void combine(RefExtremes* all, const RefExtremes* part) {
  all->low = ref_smaller(all->low, part->low);
  all->high = ref_larger(all->high, part->high);
  all->saturated += part->saturated;
}

DevDirection dev_direction(const DevParameter* p, RefUpdate* update, int wide_exponent) {
  const int32_t length = p->count / p->blocks;
  RefExtremes all = {INT64_MAX, INT64_MIN, 0};
  for (int32_t b = 0; b < p->blocks; ++b) {
    const RefUpdate own = dev_of_block(p, update, b);
    const RefExtremes part = ref_direction_extremes(&own, b * length, (b + 1) * length);
    combine(&all, &part);
  }
  const uint64_t maximum = dev_largest_of(&all);
  const DevNarrowed narrowed = dev_narrowed(maximum, wide_exponent, update->direction_bits);
  update->direction_shift = narrowed.shift;
  const DevDirection direction = {wide_exponent, narrowed.exponent, maximum == 0};
  return direction;
}

// Steps a block with one exponent, which it may change, but not to one below `smallest`.
static void step_block(DevStep* step, const DevParameter* p, const RefUpdate* of_all,
                       int step_exponent, int smallest, int32_t block) {
  const int32_t length = p->count / p->blocks, begin = block * length, end = begin + length;
  RefUpdate update = *of_all;
  update.update_shift = p->exponents[block] - update.shift - step_exponent;
  const RefExtremes values = ref_update_step(&update, begin, end);
  step->clipped += values.saturated;
  const int most = (int)ref_larger(0, p->exponents[block] - smallest);
  const int growth =
      ref_lazy_growth(values.low, values.high, update.weight_bits, update.shift, most);
  if (growth == 0) return;
  ref_change_unit(&update, growth, begin, end);
  p->exponents[block] = (int16_t)(p->exponents[block] + growth);
}

void dev_take_step(DevStep* step, const DevParameter* p, RefUpdate* update, int direction_exponent,
                   uint64_t gradient_maximum) {
  const RefReal rate = ref_real_product(step->scalars.learning_rate, p->rate_factor);
  const int rate_shift = ref_fixed_point_shift(rate, 31);
  update->rate_multiplier = ref_fixed_point(rate, rate_shift, ref_mantissa_limit(32));
  const int step_exponent = direction_exponent - rate_shift;
  const int largest = dev_largest_exponent_of(p);
  const int smallest = p->blocks == 1
                           ? kSmallestWeightExponent
                           : (int)ref_larger(kSmallestWeightExponent, largest - kMostChannelSpread);
  for (int32_t b = 0; b < p->blocks; ++b) {
    RefUpdate own = *update;
    // The largest exponent before the step, which other blocks may have changed by now.
    own.decay_multiplier = ref_rescale_rne(own.decay_multiplier, largest - p->exponents[b]);
    step_block(step, p, &own, step_exponent, smallest, b);
  }
  for (int32_t b = 0; b < p->blocks; ++b) p->exponents[b] = dev_checked(step, p->exponents[b]);
  *p->fixed_exponent = (int16_t)ref_next_accumulator_exponent(*p->fixed_exponent, gradient_maximum);
}
