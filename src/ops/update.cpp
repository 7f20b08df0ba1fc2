// Optimisers as instructions: plain SGD, SGD with momentum and Nesterov's, by lazy update. Source:
// METHODS section 1, BlockFloat [0135]-[0148]; the integer order stands in kernels/update/update.h.
#include <functional>

#include "ops/fp32/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/update_parts.h"

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

// Replaces the velocity; the direction is then the new velocity (16 bits), or, looking ahead, the
// gradient plus momentum times that velocity (32 bits).
void apply_momentum(const OpContext& c, bool look_ahead) {
  const ParameterView& p = c.parameters[0];
  const Tensor& velocity = p.moments[0];
  kernels::Update update = update_of(c);
  update.velocity = velocity.as<int16_t>();
  update.direction_bits = 16;
  const Real momentum(c.scalars->momentum);
  DirectionBounds bounds;
  const auto gradient = measure_gradient(c, momentum, update, bounds);
  if (!gradient) return;
  const Term terms[] = {gradient_term(c, *gradient, update),
                        {ldexp(momentum, *velocity.exponent), 15, &update.velocity_multiplier},
                        decay_term(c, update)};
  DirectionExponents exponents = choose_direction(c, terms, bounds, update);
  set_exponent(c, velocity, exponents.direction);
  if (look_ahead) {
    *p.mantissa.saturated += over_blocks<int64_t>(
        c, update,
        [&](const kernels::Update& own, int64_t begin, int64_t end) {
          return c.kernels->update->look_ahead(own, begin, end);
        },
        std::plus());
    // |v' * multiplier| is at most |wide|, up to its rounding.
    update.velocity_multiplier = to_fixed_point(momentum, update.direction_shift, int64_t{1} << 47);
    update.direction_bits = 32;
    exponents.direction = narrow_direction(c, update, exponents.wide);
  }
  take_step(c, update, exponents.direction, gradient->maximum);
}

Result<Shape> no_shape(const Attributes&, std::span<const Shape>) {
  return invalid_input("an update is not a node of a network");
}

}  // namespace

const Op kUpdateSgd = {.name = "update_sgd",
                       .infer_shape = no_shape,
                       .forward = apply_sgd,
                       .kernel = kernel_name<&kernels::KernelTable::update>,
                       .fp32 = &fp32::kUpdateSgd};
const Op kUpdateMomentum = {.name = "update_momentum",
                            .traits = {.takes_gradient_rows = true},
                            .infer_shape = no_shape,
                            .forward = [](const OpContext& c) { apply_momentum(c, false); },
                            .kernel = kernel_name<&kernels::KernelTable::update>,
                            .fp32 = &fp32::kUpdateMomentum};
const Op kUpdateNesterov = {.name = "update_nesterov",
                            .infer_shape = no_shape,
                            .forward = [](const OpContext& c) { apply_momentum(c, true); },
                            .kernel = kernel_name<&kernels::KernelTable::update>,
                            .fp32 = &fp32::kUpdateNesterov};

}  // namespace mantissa::ops
