#include "device/training/update_parts.h"
#include "device/training/updates.h"

enum {
  kDirectionBits = 23,  // of an element's direction
  kDenominatorBits = 28
};

// The addend before the low `shift` bits are cut off in a step: it runs through [0, 2^shift)
// evenly, as the bits of the step in reverse order do.
static int64_t rounding_offset(int64_t step, int shift) {
  uint32_t reversed = 0;
  for (int bit = 0; bit < 32; ++bit) {
    reversed = reversed << 1 | (uint32_t)((uint64_t)step >> bit & 1);
  }
  const uint64_t fraction = reversed;
  return (int64_t)(shift <= 32 ? fraction >> (32 - shift) : fraction << (shift - 32));
}

// Aligns |g| and s: their squares' sums have one exponent, twice the one returned.
static int align_squares(int gradient_exponent, int root_exponent, RefAdam* adam) {
  const int exponent = (int)ref_larger(gradient_exponent + kGradientBits - REF_ADAM_ROOT_BITS,
                                       root_exponent + 15 - REF_ADAM_ROOT_BITS);
  adam->magnitude_shift = exponent - gradient_exponent;
  adam->root_align = root_exponent - exponent;
  return exponent;
}

// The widths of m' and s'; sets their exponents. Moments that are all zero keep theirs.
DEV_APART void narrow_moments(DevStep* step, const DevParameter* p, const RefAdamExtremes* e,
                              int first_exponent, int square_exponent, RefAdam* adam) {
  const uint64_t largest_first = dev_largest_of(&e->first);
  const DevNarrowed m = dev_narrowed(largest_first, first_exponent, 16);
  adam->first_shift = m.shift;
  adam->first_offset = rounding_offset(step->scalars.step, m.shift);
  if (largest_first != 0) *p->first_exponent = dev_checked(step, m.exponent);
  adam->root_floor = e->largest_square == 0 ? 0 : 1;
  if (e->largest_square == 0) return;
  const int root_exponent = square_exponent - (REF_ADAM_WEIGHT_BITS - REF_ADAM_CUT_BITS) / 2;
  const DevNarrowed s =
      dev_narrowed(ref_integer_root((uint64_t)e->largest_square), root_exponent, 16);
  adam->root_shift = s.shift;
  adam->root_offset = rounding_offset(step->scalars.step, s.shift);
  *p->second_exponent = dev_checked(step, s.exponent);
}

// m^ / (s^ + epsilon) = m / ((1 - beta1^t) (s / sqrt(1 - beta2^t) + epsilon)).
DEV_APART void choose_quotient(const DevStep* step, const DevParameter* p, RefAdam* adam) {
  const int64_t updates = step->scalars.step + 1, limit = INT64_C(1) << kDenominatorBits;
  const RefReal one = ref_real(1);
  const RefReal first = ref_real_difference(one, ref_real_power(step->scalars.beta1, updates));
  const RefReal second = ref_real_difference(one, ref_real_power(step->scalars.beta2, updates));
  const RefReal unit =
      ref_real_scaled(ref_real_quotient(first, ref_real_root(second)), *p->second_exponent);
  const RefReal epsilon = ref_real_product(first, step->scalars.epsilon);
  const int shift =
      ref_fixed_point_shift(ref_real_larger(ref_real_scaled(unit, 15), epsilon), kDenominatorBits);
  adam->root_multiplier = ref_fixed_point(unit, shift, limit >> 15);
  adam->epsilon = ref_fixed_point(epsilon, shift, limit);
  adam->numerator_shift =
      (int)ref_smaller(*p->first_exponent + REF_ADAM_DIRECTION_BITS + shift, 46);
}

// Replaces G by the direction. Its gradient is the gradient of `update`, with this exponent.
DEV_APART void make_direction(DevStep* step, const DevParameter* p, const RefUpdate* update,
                              int exponent) {
  const DevScalars* scalars = &step->scalars;
  const RefReal one = ref_real(1);
  RefAdam adam = {.first = p->first, .root = p->second, .root_floor = 1};
  const DevTerm terms[] = {
      {ref_real_scaled(ref_real_difference(one, scalars->beta1), exponent), kGradientBits,
       &adam.gradient_multiplier},
      {ref_real_scaled(scalars->beta1, *p->first_exponent), 15, &adam.first_multiplier}};
  const int first_exponent = dev_choose_multipliers(terms, 2);
  const int square_exponent = align_squares(exponent, *p->second_exponent, &adam);
  adam.square_multiplier =
      ref_fixed_point(ref_real_difference(one, scalars->beta2), REF_ADAM_WEIGHT_BITS,
                      INT64_C(1) << REF_ADAM_WEIGHT_BITS);
  const int32_t length = p->count / p->blocks;
  RefAdamExtremes all = {{INT64_MAX, INT64_MIN, 0}, 0};
  for (int32_t b = 0; b < p->blocks; ++b) {
    const RefUpdate own = dev_of_block(p, update, b);
    const RefAdamExtremes part = ref_adam_extremes(&own, &adam, b * length, (b + 1) * length);
    all.first.low = ref_smaller(all.first.low, part.first.low);
    all.first.high = ref_larger(all.first.high, part.first.high);
    all.largest_square = ref_larger(all.largest_square, part.largest_square);
  }
  narrow_moments(step, p, &all, first_exponent, square_exponent, &adam);
  choose_quotient(step, p, &adam);
  step->clipped += ref_adam_direction(&update->gradient, &adam, 0, p->count);
}

static void apply_adam(DevStep* step, const DevParameter* p, bool decoupled) {
  RefUpdate update = dev_update_of(step, p);
  const DevGradient gradient = dev_measure(step, p, &update);
  if (!gradient.is_usable) return;
  const DevTerm terms[] = {dev_gradient_term(step, &gradient, &update),
                           dev_decay_term(step, p, &update)};
  const int wide = dev_choose_multipliers(terms, decoupled ? 1 : 2);
  make_direction(step, p, &update, dev_direction(p, &update, wide).exponent);
  update.gradient_shift = update.direction_shift = 0;
  update.gradient_multiplier = 1;
  update.decay_multiplier = 0;
  int direction = -REF_ADAM_DIRECTION_BITS;
  const DevTerm decay = dev_decay_term(step, p, &update);
  if (decoupled && decay.coefficient.mantissa != 0) {
    const DevTerm sum[] = {
        {ref_real_scaled(ref_real(1), direction), kDirectionBits, &update.gradient_multiplier},
        decay};
    direction = dev_direction(p, &update, dev_choose_multipliers(sum, 2)).exponent;
  }
  dev_take_step(step, p, &update, direction, gradient.maximum);
}

void dev_update_adam(DevStep* step, const DevParameter* p) { apply_adam(step, p, false); }
void dev_update_adamw(DevStep* step, const DevParameter* p) { apply_adam(step, p, true); }
