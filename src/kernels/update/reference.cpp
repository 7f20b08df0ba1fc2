// The normative update loops, compiled for any CPU.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "kernels/update/update.h"
#include "numerics/adam.h"
#include "numerics/lazy_update.h"

namespace mantissa::kernels {
namespace {
#include "kernels/update/update_loops.h"
// Built on these.
#include "kernels/update/optimizer_loops.h"

template <typename Sum>
int64_t adam_directions(Sum* gradients, const Adam& args, int64_t begin, int64_t end) noexcept {
  const AdamSums sums(args);
  const int64_t limit = mantissa_limit(16);
  int64_t saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t gradient = gradients[i];
    const int64_t sum = sums.first(gradient, args.first[i]);
    const auto size = static_cast<int64_t>(magnitude(sum));
    const int64_t m = (size + args.first_offset) >> args.first_shift;
    const int64_t root = integer_square_root(sums.square(gradient, args.root[i]));
    const int64_t s = (root + args.root_offset) >> args.root_shift;
    args.first[i] = static_cast<int16_t>(saturate(sum < 0 ? -m : m, limit));
    args.root[i] = static_cast<int16_t>(std::clamp(s, args.root_floor, limit));
    const int64_t numerator =
        args.numerator_shift < 0 ? 0 : int64_t{args.first[i]} << args.numerator_shift;
    const int64_t denominator =
        std::max<int64_t>(1, args.root[i] * args.root_multiplier + args.epsilon);
    const int64_t clipped = saturate(numerator, denominator << kAdamLimitBits);
    gradients[i] = static_cast<Sum>(divide_rne(clipped, denominator));
    saturated += (m > limit) + (s > limit) + (clipped != numerator);
  }
  return saturated;
}

int64_t adam_direction(const GradientSums& gradient, const Adam& args, int64_t begin,
                       int64_t end) noexcept {
  return with_sum_type(gradient.bits, [&](auto type) {
    return adam_directions(gradient.as<decltype(type)>(), args, begin, end);
  });
}
}  // namespace

const UpdateKernels kUpdateReference = {
    "update_reference", kNeedsNothing,  gradient_extremes, sketch_extremes, direction_extremes,
    count_directions<direction_extremes>,   step,           change_unit,       look_ahead,      adam_extremes,
    adam_direction,     adam_direction, sum_of_squares};

}  // namespace mantissa::kernels
