// Shared by the updates of all optimisers: from the summed gradient to a direction, and from a
// direction to the weights. kernels/update/update.h gives the order of the integer operations.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "numerics/real.h"
#include "ops/gradient_rows.h"
#include "ops/ops.h"
#include "ops/updates/direction_bounds.h"

namespace mantissa::ops {

// Bits of |g|.
constexpr int kGradientBits = 31;

// The update with the decay of a block. The block's exponent lies `below` the largest of its
// tensor; the multiplier is for that largest exponent.
kernels::Update with_decay_of_block(kernels::Update update, int below);

// As over_gradient with function(update, begin, end), called for each block with its own decay.
template <typename Part, typename Function, typename Combine>
Part over_blocks(const OpContext& c, const kernels::Update& update, Function&& function,
                 Combine&& combine) {
  const Tensor& weights = c.parameters[0].mantissa;
  const int64_t length = weights.count() / weights.blocks;
  const int largest = weights.largest_exponent();
  const auto part = [&](const kernels::GradientSums& sums, int64_t begin, int64_t end) {
    Part total = {};
    for (int64_t first = begin, last = begin; first < end; first = last) {
      const int64_t block = first / length;
      last = std::min(end, (block + 1) * length);
      kernels::Update own = with_decay_of_block(update, largest - weights.block_exponent(block));
      own.gradient = sums;
      total = combine(total, function(own, first, last));
    }
    return total;
  };
  return over_gradient<Part>(c, c.parameters[0], part, combine);
}

// The extremes of two parts together.
kernels::Extremes combined(const kernels::Extremes& a, const kernels::Extremes& b);

uint64_t largest(const kernels::Extremes& e);

// A term of a sum: its coefficient times a mantissa of `bits` bits.
struct Term {
  Real coefficient;
  int bits;
  int64_t* multiplier;
};

// Multipliers that give all terms one exponent, which is returned: each term has at most 59 bits.
int choose_multipliers(std::span<const Term> terms);

// The shift that brings wide mantissas to `bits`, and the resulting exponent, not below the
// exponent of the smallest block. For a maximum of 0: the exponent of a zero block.
struct Narrowed {
  int shift;
  int exponent;
};
Narrowed narrow(uint64_t maximum, int wide_exponent, int bits);

// The velocity of a parameter, for the kernels.
inline kernels::Velocity velocity_of(const Tensor& tensor) {
  if (tensor.type == DataType::kInt32) return tensor.as<int32_t>();
  return tensor.as<int16_t>();
}

// The parameter of an update, which c.parameters[0] is.
kernels::Update update_of(const OpContext& c);

// A parameter's sums: the largest at the fixed exponent, and how they become g.
struct MeasuredGradient {
  uint64_t maximum = 0;
  int shift = 0;     // from the sums as they are
  int exponent = 0;  // of g
};
MeasuredGradient measure_sums(const OpContext& c, const ParameterView& parameter);

// Whether sums outgrew their accumulator. The totals note it, and the step then fails. The shift
// may then leave more than 31 bits.
bool has_overflowed(const OpContext& c, const MeasuredGradient& measured);

// The same for the parameter of an update, whose gradient_shift it sets; nothing if sums outgrew
// their accumulator.
std::optional<MeasuredGradient> measure_gradient(const OpContext& c, kernels::Update& update);

// As measure_gradient for an update by momentum; finds bounds of the direction in the same pass if
// the velocity has 16 bits.
std::optional<MeasuredGradient> measure_gradient(const OpContext& c, const Real& momentum,
                                                 kernels::Update& update, DirectionBounds& bounds);
// The bounds if the direction is the gradient and the weight decay, if it has any.
DirectionBounds gradient_bounds(const OpContext& c, const MeasuredGradient& gradient, bool decays);

// Terms of g and of the weight decay, which is left out for parameters that do not decay.
Term gradient_term(const OpContext& c, const MeasuredGradient& gradient, kernels::Update& update);
Term decay_term(const OpContext& c, kernels::Update& update);

// Chooses the multipliers of `wide`, and update.direction_shift, from the bounds if these are close
// enough, else from a pass over `wide`; returns the exponents of `wide` and of the direction.
struct DirectionExponents {
  int wide, direction;
  bool is_zero = false;  // the whole direction
};
DirectionExponents choose_direction(const OpContext& c, std::span<const Term> terms,
                                    const DirectionBounds& bounds, kernels::Update& update);

// Chooses update.direction_shift for the multipliers already chosen, with which `wide` has this
// exponent, by a pass over it; returns the direction's exponent.
DirectionExponents narrow_direction(const OpContext& c, kernels::Update& update, int wide_exponent);

// Notes the norm of the mean gradient, from the sum of squares of the summed gradient, and the
// factor that clips it.
void note_gradient_norm(const OpContext& c, const Real& sum_of_squares);

// Numerator and denominator of Adam's direction from the current moments, after this many updates.
void choose_quotient(const OpContext& c, int64_t updates, kernels::Adam& adam);

// Steps by the direction, changes the weights' unit if necessary, and stores the results' exponents
// and the exponent of the gradient's accumulator for the next step.
void take_step(const OpContext& c, kernels::Update& update, int direction_exponent,
               uint64_t gradient_maximum);

}  // namespace mantissa::ops
