// Optimisers as instructions: plain SGD, SGD with momentum and Nesterov's, by lazy update. Source:
// METHODS section 1, BlockFloat [0135]-[0148]; the integer order stands in kernels/update/update.h.
#include <functional>

#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/updates/update_parts.h"

namespace mantissa::ops {
namespace {

void apply_sgd(const OpContext& c) {
  kernels::Update update = update_of(c);
  const auto gradient = measure_gradient(c, update);
  if (!gradient) return;
  const Term terms[] = {gradient_term(c, *gradient, update), decay_term(c, update)};
  take_step(c, update,
            choose_direction(c, terms, gradient_bounds(c, *gradient, true), update).direction,
            gradient->maximum);
}

// Dynamic fixed point: in place of the exponent that clips nothing the velocity gets the decided
// one, which the warm-up may change.
void use_decided_exponent(const OpContext& c, const DirectionExponents& exact,
                          kernels::Update& update) {
  constexpr int kMostShift = 62;
  const Tensor& velocity = c.parameters[0].moments[0];
  if (!velocity.predictor.rule->warms_up) {
    update.direction_shift = decided_shift(velocity, exact.wide, kMostShift);
    return;
  }
  // The step writes in place: it is counted in a pass before.
  const kernels::WideCounts empty =
      empty_counts(velocity, decided_shift(velocity, exact.wide, kMostShift));
  const auto counts = over_blocks<kernels::WideCounts>(
      c, update,
      [&](const kernels::Update& own, int64_t begin, int64_t end) {
        kernels::WideCounts part = empty;
        c.kernel.table->update->count_directions(own, begin, end, &part);
        return part;
      },
      std::plus());
  update.direction_shift = decide_shift(c, velocity, exact.is_zero ? kUnmeasured : exact.direction,
                                        exact.wide, kMostShift, {&counts, 1});
}

// Counts the bits of a velocity that was written with the decided exponent.
void count_velocity(const OpContext& c, const DirectionExponents& exact, int64_t saturated) {
  const Tensor& velocity = c.parameters[0].moments[0];
  const ExponentPredictor& predictor = velocity.predictor;
  if (predictor.rule->warms_up) return;
  *predictor.bits +=
      kernels::bit_statistics(kernels::count_block(*c.kernel.table->bit_counts, *c.kernel.pool,
                                                   gradient_of(velocity), velocity.count()),
                              velocity.count(),
                              {.decided_exponent = *predictor.predicted,
                               .written_exponent = *velocity.exponent,
                               .largest_exponent = exact.is_zero ? kUnmeasured : exact.direction},
                              saturated);
}

// Replaces the velocity; the direction is then the new velocity (16 bits, or 32), or, looking
// ahead, the gradient plus momentum times that velocity (32 bits).
void apply_momentum(const OpContext& c, bool look_ahead) {
  const ParameterView& p = c.parameters[0];
  const Tensor& velocity = p.moments[0];
  kernels::Update update = update_of(c);
  update.velocity = velocity_of(velocity);
  update.direction_bits = update.velocity.bits;
  const Real momentum(c.step.scalars->momentum);
  DirectionBounds bounds;
  const auto gradient = measure_gradient(c, momentum, update, bounds);
  if (!gradient) return;
  const Term terms[] = {
      gradient_term(c, *gradient, update),
      {ldexp(momentum, *velocity.exponent), update.velocity.bits - 1, &update.velocity_multiplier},
      decay_term(c, update)};
  const bool decides = c.mode.exponents == ExponentMode::kDecided;
  const DirectionExponents exact = choose_direction(c, terms, bounds, update);
  if (decides) use_decided_exponent(c, exact, update);
  int direction = decides ? exact.wide + update.direction_shift : exact.direction;
  set_exponent(c, velocity, direction);
  const int64_t saturated_before = *p.mantissa.saturated;
  if (look_ahead) {
    *p.mantissa.saturated += over_blocks<int64_t>(
        c, update,
        [&](const kernels::Update& own, int64_t begin, int64_t end) {
          return c.kernel.table->update->look_ahead(own, begin, end);
        },
        std::plus());
    // |v' * multiplier| is at most |wide|, up to its rounding.
    update.velocity_multiplier = to_fixed_point(momentum, update.direction_shift, int64_t{1} << 47);
    if (decides) count_velocity(c, exact, *p.mantissa.saturated - saturated_before);
    update.looks_ahead = true;
    update.direction_bits = 32;
    direction = narrow_direction(c, update, exact.wide).direction;
  }
  take_step(c, update, direction, gradient->maximum);
  if (decides && !look_ahead) count_velocity(c, exact, *p.mantissa.saturated - saturated_before);
}

Result<Shape> no_shape(const Attributes&, std::span<const Shape>) {
  return invalid_input("an update is not a node of a network");
}

}  // namespace

const Op kUpdateSgd = {.name = "update_sgd",
                       .infer_shape = no_shape,
                       .integer = {.forward = {.run = apply_sgd},
                                   .kernel = kernel_name<&kernels::KernelTable::update>},
                       .fp32 = &fp32::kUpdateSgd};
const Op kUpdateMomentum = {
    .name = "update_momentum",
    .infer_shape = no_shape,
    .integer = {.forward = {.run = [](const OpContext& c) { apply_momentum(c, false); }},
                .kernel = kernel_name<&kernels::KernelTable::update>},
    .fp32 = &fp32::kUpdateMomentum};
const Op kUpdateNesterov = {
    .name = "update_nesterov",
    .infer_shape = no_shape,
    .integer = {.forward = {.run = [](const OpContext& c) { apply_momentum(c, true); }},
                .kernel = kernel_name<&kernels::KernelTable::update>},
    .fp32 = &fp32::kUpdateNesterov};

}  // namespace mantissa::ops
