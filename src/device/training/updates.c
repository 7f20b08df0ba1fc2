#include "device/training/updates.h"

#include "device/training/update_parts.h"

enum { kMostShift = 62 };

void dev_update_sgd(DevStep* step, const DevParameter* p) {
  RefUpdate update = dev_update_of(step, p);
  const DevGradient gradient = dev_measure(step, p, &update);
  if (!gradient.is_usable) return;
  const DevTerm terms[] = {dev_gradient_term(step, &gradient, &update),
                           dev_decay_term(step, p, &update)};
  const DevDirection direction = dev_direction(p, &update, dev_choose_multipliers(terms, 2));
  dev_take_step(step, p, &update, direction.exponent, gradient.maximum);
}

// Dynamic fixed point: in place of the exponent that clips nothing the velocity gets the decided
// one, which the warm-up may change.
DEV_APART void use_decided(DevStep* step, const DevParameter* p, const DevDirection* exact,
                           RefUpdate* update) {
  const DevTensor* velocity = &p->velocity;
  const int before = dev_decided_shift(velocity, exact->wide, kMostShift);
  update->direction_shift = before;
  if (!step->warms_up) return;
  // The step writes in place: it is counted in a pass before.
  const int32_t length = p->count / p->blocks;
  RefWideCounts counts;
  dev_empty_counts(step, velocity, before, &counts);
  for (int32_t b = 0; b < p->blocks; ++b) {
    const RefUpdate own = dev_of_block(p, update, b);
    ref_count_directions(&own, b * length, (b + 1) * length, &counts);
  }
  const int largest = exact->is_zero ? REF_UNMEASURED : exact->exponent;
  if (largest > REF_EXPONENT_MAX) step->exponent_overflow = true;
  update->direction_shift = dev_decide(step, velocity, largest, exact->wide, kMostShift, &counts);
}

static void count_velocity(const DevStep* step, const DevParameter* p, const DevDirection* exact,
                           int64_t clipped) {
  if (!step->decides || step->warms_up) return;
  dev_count_written(&p->velocity, exact->is_zero ? REF_UNMEASURED : exact->exponent, clipped);
}

// Nesterov's first half: the velocity is replaced before the step.
DEV_APART int look_ahead(DevStep* step, const DevParameter* p, DevReal momentum,
                         const DevDirection* exact, RefUpdate* update) {
  const int32_t length = p->count / p->blocks;
  int64_t clipped = 0;
  for (int32_t b = 0; b < p->blocks; ++b) {
    const RefUpdate own = dev_of_block(p, update, b);
    clipped += ref_look_ahead(&own, b * length, (b + 1) * length);
  }
  step->clipped += clipped;
  // |v' * multiplier| is at most |wide|, up to its rounding.
  update->velocity_multiplier =
      dev_fixed_point(momentum, update->direction_shift, INT64_C(1) << 47);
  count_velocity(step, p, exact, clipped);
  update->looks_ahead = true;
  update->direction_bits = 32;
  return dev_direction(p, update, exact->wide).exponent;
}

static void apply_momentum(DevStep* step, const DevParameter* p, bool looks_ahead) {
  RefUpdate update = dev_update_of(step, p);
  update.velocity.data = p->first;
  update.velocity.bits = update.direction_bits = 16;
  const DevReal momentum = step->scalars.momentum;
  const DevGradient gradient = dev_measure(step, p, &update);
  if (!gradient.is_usable) return;
  const DevTerm terms[] = {
      dev_gradient_term(step, &gradient, &update),
      {dev_scaled(momentum, *p->first_exponent), 15, &update.velocity_multiplier},
      dev_decay_term(step, p, &update)};
  const DevDirection exact = dev_direction(p, &update, dev_choose_multipliers(terms, 3));
  if (step->decides) use_decided(step, p, &exact, &update);
  int direction = step->decides ? exact.wide + update.direction_shift : exact.exponent;
  *p->first_exponent = dev_checked(step, direction);
  if (looks_ahead) direction = look_ahead(step, p, momentum, &exact, &update);
  const int64_t before = step->clipped;
  dev_take_step(step, p, &update, direction, gradient.maximum);
  if (!looks_ahead) count_velocity(step, p, &exact, step->clipped - before);
}

void dev_update_momentum(DevStep* step, const DevParameter* p) { apply_momentum(step, p, false); }
void dev_update_nesterov(DevStep* step, const DevParameter* p) { apply_momentum(step, p, true); }
