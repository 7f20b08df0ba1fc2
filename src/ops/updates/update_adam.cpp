// Adam and AdamW by lazy update, with 16 bits for m and for the root of v (METHODS section 1). The
// integer order stands in kernels/update/update.h; why it is so in docs/decisions/0017.
#include <algorithm>
#include <functional>

#include "numerics/adam.h"
#include "numerics/exponent.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/updates/update_parts.h"

namespace mantissa::ops {
namespace {

using kernels::Adam;
using kernels::AdamExtremes;

// An element's direction has the exponent -kAdamDirectionBits and at most this many bits.
constexpr int kDirectionBits = 23;
// Bits of the denominator's largest term.
constexpr int kDenominatorBits = 28;
constexpr int64_t kDenominatorLimit = int64_t{1} << kDenominatorBits;

// Aligns |g| and s: their squares' sums have one exponent, twice the one returned.
int align_squares(int gradient_exponent, int root_exponent, Adam& adam) {
  const int exponent = std::max(gradient_exponent + kGradientBits - kernels::kAdamRootBits,
                                root_exponent + 15 - kernels::kAdamRootBits);
  adam.magnitude_shift = exponent - gradient_exponent;
  adam.root_align = root_exponent - exponent;
  return exponent;
}

// The widths of m' and s'; sets their exponents. Moments that are all zero keep theirs.
void narrow_moments(const OpContext& c, const AdamExtremes& e, int first_exponent,
                    int square_exponent, Adam& adam) {
  const auto& [first, root] = c.parameters[0].moments;
  const uint64_t largest_first = largest(e.first);
  const Narrowed m = narrow(largest_first, first_exponent, 16);
  adam.first_shift = m.shift;
  adam.first_offset = rounding_offset(c.step.scalars->step, m.shift);
  if (largest_first != 0) set_exponent(c, first, m.exponent);
  adam.root_floor = e.largest_square == 0 ? 0 : 1;
  if (e.largest_square == 0) return;
  const int root_exponent =
      square_exponent - (kernels::kAdamWeightBits - kernels::kAdamCutBits) / 2;
  const Narrowed s =
      narrow(static_cast<uint64_t>(integer_square_root(e.largest_square)), root_exponent, 16);
  adam.root_shift = s.shift;
  adam.root_offset = rounding_offset(c.step.scalars->step, s.shift);
  set_exponent(c, root, s.exponent);
}

// Replaces G by the direction. Its gradient is the gradient of `update`, with exponent `exponent`.
void make_adam_direction(const OpContext& c, const kernels::Update& update, int exponent) {
  const ParameterView& p = c.parameters[0];
  const auto& [first, root] = p.moments;
  const StepScalars& scalars = *c.step.scalars;
  Adam adam{.first = first.as<int16_t>(), .root = root.as<int16_t>()};
  const Term terms[] = {
      {ldexp(Real(1) - Real(scalars.beta1), exponent), kGradientBits, &adam.gradient_multiplier},
      {ldexp(Real(scalars.beta1), *first.exponent), 15, &adam.first_multiplier}};
  const int first_exponent = choose_multipliers(terms);
  const int square_exponent = align_squares(exponent, *root.exponent, adam);
  adam.square_multiplier = to_fixed_point(Real(1) - Real(scalars.beta2), kernels::kAdamWeightBits,
                                          int64_t{1} << kernels::kAdamWeightBits);
  const kernels::UpdateKernels& kernel = *c.kernel.table->update;
  const auto e = over_blocks<AdamExtremes>(
      c, update,
      [&](const kernels::Update& own, int64_t begin, int64_t end) {
        return kernel.adam_extremes(own, adam, begin, end);
      },
      [](const AdamExtremes& a, const AdamExtremes& b) {
        return AdamExtremes{combined(a.first, b.first),
                            std::max(a.largest_square, b.largest_square)};
      });
  narrow_moments(c, e, first_exponent, square_exponent, adam);
  choose_quotient(c, scalars.step + 1, adam);
  // Dynamic fixed point does without floating point, and takes longer.
  const auto direction = c.mode.exponents == ExponentMode::kDecided
                             ? kernel.adam_direction_in_integers
                             : kernel.adam_direction;
  *p.mantissa.saturated += over_parameter<int64_t>(
      c, p.mantissa.count(),
      [&](int64_t begin, int64_t end) { return direction(update.gradient, adam, begin, end); },
      std::plus());
}

void apply(const OpContext& c, bool decoupled) {
  kernels::Update update = update_of(c);
  const auto gradient = measure_gradient(c, update);
  if (!gradient) return;
  const Term terms[] = {gradient_term(c, *gradient, update), decay_term(c, update)};
  const auto used = std::span(terms).first(decoupled ? 1 : 2);
  make_adam_direction(
      c, update,
      choose_direction(c, used, gradient_bounds(c, *gradient, !decoupled), update).direction);
  update.gradient_shift = update.direction_shift = 0;
  update.gradient_multiplier = 1;
  update.decay_multiplier = 0;
  int direction_exponent = -kernels::kAdamDirectionBits;
  if (decoupled && !decay_term(c, update).coefficient.is_zero()) {
    const Term sum[] = {
        {ldexp(Real(1), direction_exponent), kDirectionBits, &update.gradient_multiplier},
        decay_term(c, update)};
    direction_exponent = choose_direction(c, sum, {}, update).direction;
  }
  take_step(c, update, direction_exponent, gradient->maximum);
}

Result<Shape> no_shape(const Attributes&, std::span<const Shape>) {
  return invalid_input("an update is not a node of a network");
}

}  // namespace

// m^ / (s^ + epsilon) = m / ((1 - beta1^t) (s / sqrt(1 - beta2^t) + epsilon)).
void choose_quotient(const OpContext& c, int64_t updates, Adam& adam) {
  const StepScalars& scalars = *c.step.scalars;
  const auto& [first, root] = c.parameters[0].moments;
  const Real first_part = Real(1) - power(Real(scalars.beta1), updates);
  const Real second_part = Real(1) - power(Real(scalars.beta2), updates);
  const Real unit = ldexp(first_part / sqrt(second_part), *root.exponent);
  const Real epsilon = first_part * Real(scalars.epsilon);
  const int shift = fixed_point_shift(std::max(ldexp(unit, 15), epsilon), kDenominatorBits);
  adam.root_multiplier = to_fixed_point(unit, shift, kDenominatorLimit >> 15);
  adam.epsilon = to_fixed_point(epsilon, shift, kDenominatorLimit);
  adam.numerator_shift = std::min(*first.exponent + kernels::kAdamDirectionBits + shift, 46);
}

const Op kUpdateAdam = {.name = "update_adam",
                        .infer_shape = no_shape,
                        .integer = {.forward = {.run = [](const OpContext& c) { apply(c, false); }},
                                    .kernel = kernel_name<&kernels::KernelTable::update>},
                        .fp32 = &fp32::kUpdateAdam};
const Op kUpdateAdamW = {.name = "update_adamw",
                         .infer_shape = no_shape,
                         .integer = {.forward = {.run = [](const OpContext& c) { apply(c, true); }},
                                     .kernel = kernel_name<&kernels::KernelTable::update>},
                         .fp32 = &fp32::kUpdateAdamW};

}  // namespace mantissa::ops
