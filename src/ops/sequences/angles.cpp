#include "ops/sequences/angles.h"

#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "numerics/real.h"
#include "scalars/circle.h"

namespace mantissa::ops {
namespace {

constexpr double kTwoPi = 6.283185307179586;

Real power(Real x, int64_t n) {
  Real result(1);
  for (; n > 0; n >>= 1, x = x * x) {
    if ((n & 1) != 0) result = result * x;
  }
  return result;
}

// The n-th root of x, from a number that is not smaller. Newton's method then falls, until rounding
// stops it.
Real root(const Real& x, int64_t n, Real from) {
  while (true) {
    const Real next = (Real(n - 1) * from + x / power(from, n - 1)) / Real(n);
    if (!(next < from)) return from;
    from = next;
  }
}

}  // namespace

Angles angles_of_pairs(int64_t pairs, double base, std::span<const int64_t> factors) {
  Angles angles;
  Real radians(1);
  for (int64_t i = 0; i < pairs; ++i) {
    if (i > 0) radians = root(Real(1) / power(Real(base), i), pairs, radians);
    // Less than a quarter turn, so 63 bits hold it.
    Real angle = radians / Real(kTwoPi);
    if (!factors.empty()) {
      const int64_t factor = factors[factors.size() == 1 ? 0 : static_cast<size_t>(i)];
      angle = ldexp(angle, kFactorBits) / Real(factor);
    }
    const int64_t turn = to_fixed_point(angle, 63, INT64_MAX);
    angles.push_back(static_cast<uint64_t>(turn) << 1);
  }
  return angles;
}

CircleTable make_circle_table(const OpContext& context, int64_t positions) {
  const Angles& angles = *static_cast<const Angles*>(context.kernel.prepared);
  const auto pairs = static_cast<int64_t>(angles.size());
  auto* const cosines = reinterpret_cast<int32_t*>(context.memory.workspace);
  int32_t* const sines = cosines + positions * pairs;
  const auto first = static_cast<uint64_t>(context.step.scalars->position);
  const int64_t grain = std::max<int64_t>(1, kernels::kElementsPerThread / 8 / pairs);
  kernels::parallel_ranges(
      *context.kernel.pool, positions, grain, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t position = begin; position < end; ++position) {
          for (int64_t i = 0; i < pairs; ++i) {
            const RefCirclePoint point =
                ref_circle_q30(angles[i] * (first + static_cast<uint64_t>(position)));
            cosines[position * pairs + i] = point.cosine;
            sines[position * pairs + i] = point.sine;
          }
        }
      });
  return {cosines, sines};
}

}  // namespace mantissa::ops
