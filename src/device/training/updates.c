#include "device/training/updates.h"

#include "device/training/dynamic.h"

void dev_update_sgd(DevStep* step, const DevParameter* p) {
  RefUpdate update = dev_update_of(step, p);
  const DevGradient gradient = dev_measure(step, p, &update);
  if (!gradient.is_usable) return;
  const DevTerm terms[] = {dev_gradient_term(step, &gradient, &update),
                           dev_decay_term(step, p, &update)};
  const DevDirection direction = dev_direction(p, &update, dev_choose_multipliers(terms, 2));
  dev_take_step(step, p, &update, direction.exponent, gradient.maximum);
}

// Nesterov's first half: the velocity is replaced before the step.
DEV_APART int look_ahead(DevStep* step, const DevParameter* p, RefReal momentum,
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
      ref_fixed_point(momentum, update->direction_shift, INT64_C(1) << 47);
  if (step->dynamic != NULL) step->dynamic->count_velocity(step, p, exact, clipped);
  update->looks_ahead = true;
  update->direction_bits = 32;
  return dev_direction(p, update, exact->wide).exponent;
}

static void apply_momentum(DevStep* step, const DevParameter* p, bool looks_ahead) {
  RefUpdate update = dev_update_of(step, p);
  update.velocity.data = p->first;
  update.velocity.bits = update.direction_bits = 16;
  const RefReal momentum = step->scalars.momentum;
  const DevGradient gradient = dev_measure(step, p, &update);
  if (!gradient.is_usable) return;
  const DevTerm terms[] = {
      dev_gradient_term(step, &gradient, &update),
      {ref_real_scaled(momentum, *p->first_exponent), 15, &update.velocity_multiplier},
      dev_decay_term(step, p, &update)};
  const DevDirection exact = dev_direction(p, &update, dev_choose_multipliers(terms, 3));
  const DevDynamic* dynamic = step->dynamic;
  if (dynamic != NULL) dynamic->use_velocity(step, p, &exact, &update);
  int direction = dynamic != NULL ? exact.wide + update.direction_shift : exact.exponent;
  *p->first_exponent = dev_checked(step, direction);
  if (looks_ahead) direction = look_ahead(step, p, momentum, &exact, &update);
  const int64_t before = step->clipped;
  dev_take_step(step, p, &update, direction, gradient.maximum);
  if (dynamic != NULL && !looks_ahead) {
    dynamic->count_velocity(step, p, &exact, step->clipped - before);
  }
}

void dev_update_momentum(DevStep* step, const DevParameter* p) { apply_momentum(step, p, false); }
void dev_update_nesterov(DevStep* step, const DevParameter* p) { apply_momentum(step, p, true); }
