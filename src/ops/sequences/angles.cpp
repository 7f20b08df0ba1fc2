#include "ops/sequences/angles.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

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

// Cosines, then sines, [positions, pairs] each.
using Circle = std::vector<int32_t>;

struct PreparedCircle {
  Angles angles;
  std::shared_ptr<const Circle> shared;  // null: too large
};

CircleTable table_of(const int32_t* circle, int64_t positions, int64_t pairs) {
  return {circle, circle + positions * pairs};
}

// The rows [begin, end) of a table whose first position is `first`.
void write_circle(const Angles& angles, uint64_t first, int64_t positions, int64_t begin,
                  int64_t end, int32_t* circle) {
  const auto pairs = std::ssize(angles);
  for (int64_t position = begin; position < end; ++position) {
    for (int64_t i = 0; i < pairs; ++i) {
      const RefCirclePoint point = ref_circle_q30(angles[static_cast<size_t>(i)] *
                                                  (first + static_cast<uint64_t>(position)));
      circle[position * pairs + i] = point.cosine;
      circle[(positions + position) * pairs + i] = point.sine;
    }
  }
}

// Larger tables would be memory that no plan counts.
constexpr int64_t kMostSharedBytes = int64_t{1} << 20;

// One table for all instructions that live and turn by the same angles. It never changes.
std::shared_ptr<const Circle> shared_circle(const Angles& angles, int64_t positions) {
  static std::mutex mutex;
  static std::map<std::pair<Angles, int64_t>, std::weak_ptr<const Circle>> circles;
  const auto pairs = std::ssize(angles);
  if (circle_table_bytes(positions, pairs) > kMostSharedBytes) return nullptr;
  const std::lock_guard lock(mutex);
  std::erase_if(circles, [](const auto& known) { return known.second.expired(); });
  auto& known = circles[{angles, positions}];
  if (auto shared = known.lock()) return shared;
  auto made = std::make_shared<Circle>(static_cast<size_t>(2 * positions * pairs));
  write_circle(angles, 0, positions, 0, positions, made->data());
  known = made;
  return made;
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

Prepared prepare_circle_table(Angles angles, int64_t positions) {
  auto shared = shared_circle(angles, positions);
  return std::make_shared<PreparedCircle>(PreparedCircle{std::move(angles), std::move(shared)});
}

CircleTable make_circle_table(const OpContext& context, int64_t positions) {
  const auto& prepared = *static_cast<const PreparedCircle*>(context.kernel.prepared);
  const auto pairs = std::ssize(prepared.angles);
  const auto first = static_cast<uint64_t>(context.step.scalars->position);
  if (prepared.shared != nullptr && first == 0) {
    return table_of(prepared.shared->data(), positions, pairs);
  }
  auto* const circle = reinterpret_cast<int32_t*>(context.memory.workspace);
  const int64_t grain = std::max<int64_t>(1, kernels::kElementsPerThread / 8 / pairs);
  kernels::parallel_ranges(*context.kernel.pool, positions, grain,
                           [&](int64_t begin, int64_t end, int64_t) {
                             write_circle(prepared.angles, first, positions, begin, end, circle);
                           });
  return table_of(circle, positions, pairs);
}

}  // namespace mantissa::ops
