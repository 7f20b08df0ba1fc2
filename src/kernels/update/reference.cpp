// The normative update loops, compiled for any CPU.
#include <algorithm>
#include <array>
#include <bit>

#include "kernels/update/update.h"
#include "numerics/adam.h"
#include "numerics/lazy_update.h"

namespace mantissa::kernels {
namespace {
#include "kernels/update/update_loops.h"
// Built on these.
#include "kernels/update/optimizer_loops.h"

int64_t adam_direction(const Adam& args, int64_t begin, int64_t end) noexcept {
  const AdamSums sums(args);
  const int64_t limit = mantissa_limit(16);
  int64_t saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    int64_t& direction = args.gradient[i];
    const int64_t sum = sums.first(direction, args.first[i]);
    const auto size = static_cast<int64_t>(magnitude(sum));
    const int64_t m = (size + args.first_offset) >> args.first_shift;
    const int64_t root = integer_square_root(sums.square(direction, args.root[i]));
    const int64_t s = (root + args.root_offset) >> args.root_shift;
    args.first[i] = static_cast<int16_t>(saturate(sum < 0 ? -m : m, limit));
    args.root[i] = static_cast<int16_t>(std::clamp(s, args.root_floor, limit));
    const int64_t numerator =
        args.numerator_shift < 0 ? 0 : int64_t{args.first[i]} << args.numerator_shift;
    const int64_t denominator =
        std::max<int64_t>(1, args.root[i] * args.root_multiplier + args.epsilon);
    const int64_t clipped = saturate(numerator, denominator << kAdamLimitBits);
    direction = divide_rne(clipped, denominator);
    saturated += (m > limit) + (s > limit) + (clipped != numerator);
  }
  return saturated;
}
}  // namespace

const UpdateKernels kUpdateReference = {
    "update_reference", Isa::kScalar,  gradient_extremes, direction_extremes, step, commit,
    look_ahead,         adam_extremes, adam_direction,    sum_of_squares};

}  // namespace mantissa::kernels
