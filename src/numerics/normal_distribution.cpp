#include "numerics/normal_distribution.h"

#include <algorithm>
#include <array>

#include "numerics/rounding.h"

namespace mantissa {
namespace {

constexpr int kStepBits = kNormalStepBits;
constexpr int64_t kSteps = kNormalSteps;
constexpr int64_t kOneQ30 = int64_t{1} << 30;
// 1 / sqrt(2 pi), in units of 2^-62.
constexpr int64_t kDensityAtZeroQ62 = 1839796536686825613;

// Phi - 1/2 = phi(0) sum (-1)^n x^(2n+1) / (2^n n! (2n+1)), and phi = phi(0) sum (-x^2/2)^n / n!,
// term by term in units of 2^-76 with x = step / 32: products stay below 2^123, and the rounding
// errors of terms stay below 2^-40 in the sums.
constexpr NormalTables make_tables() {
  NormalTables tables;
  for (int64_t step = 0; step <= kSteps; ++step) {
    __int128 term = __int128{kDensityAtZeroQ62} << 14, density = term, integral = term;
    for (int64_t n = 1; n < 120; ++n) {
      term = -term * (step * step) / (2 * n << (2 * kStepBits));
      density += term;
      integral += term / (2 * n + 1);
    }
    constexpr int kToQ30 = 76 - 30;
    tables.density[step] = std::max<int64_t>(
        0, static_cast<int64_t>((density + (__int128{1} << (kToQ30 - 1))) >> kToQ30));
    const __int128 scaled = integral * step >> kStepBits;
    tables.probability[step] = std::min(
        kOneQ30,
        kOneQ30 / 2 + static_cast<int64_t>((scaled + (__int128{1} << (kToQ30 - 1))) >> kToQ30));
  }
  tables.probability[kSteps] = tables.probability[kSteps + 1] = kOneQ30;
  tables.density[kSteps] = tables.density[kSteps + 1] = 0;
  return tables;
}

}  // namespace

constexpr NormalTables kNormalTables = make_tables();

namespace {

// The polynomial of degree 3 with values a, b and slopes da, db, in units of the step, at t in Q30.
int64_t hermite(int64_t a, int64_t b, int64_t da, int64_t db, int64_t t) {
  const int64_t difference = b - a;
  const int64_t square = 3 * difference - 2 * da - db, cube = da + db - 2 * difference;
  int64_t value = square + shift_right_rne(cube * t, 30);
  value = da + shift_right_rne(value * t, 30);
  return a + shift_right_rne(value * t, 30);
}

// |x| between two steps of the tables, and its position there.
struct Place {
  int64_t step, t;  // t in Q30

  Place(int64_t size, int e) {
    constexpr int64_t kEnd = kSteps << (30 - kStepBits);
    const int64_t x = std::min(rescale_rne(size, -(e + 30)), kEnd);  // Q30
    step = x >> (30 - kStepBits);
    t = (x & ((int64_t{1} << (30 - kStepBits)) - 1)) << kStepBits;
  }
};

int64_t probability_at(const Place& place, bool is_negative) {
  const int64_t step = place.step;
  const int64_t p0 = kNormalTables.density[step], p1 = kNormalTables.density[step + 1];
  int64_t probability =
      hermite(kNormalTables.probability[step], kNormalTables.probability[step + 1],
              shift_right_rne(p0, kStepBits), shift_right_rne(p1, kStepBits), place.t);
  if (is_negative) probability = kOneQ30 - probability;
  return std::clamp<int64_t>(probability, 0, kOneQ30);
}

int64_t density_at(const Place& place) {
  const int64_t step = place.step;
  const int64_t at = step << (30 - kStepBits), next = at + (int64_t{1} << (30 - kStepBits));
  const int64_t p0 = kNormalTables.density[step], p1 = kNormalTables.density[step + 1];
  // The slope of the density is -x times it.
  const auto slope = [](int64_t x_q30, int64_t density) {
    return -shift_right_rne(shift_right_rne(x_q30, 3) * density, 27 + kStepBits);
  };
  return std::max<int64_t>(0, hermite(p0, p1, slope(at, p0), slope(next, p1), place.t));
}

}  // namespace

int64_t normal_probability_q30(int64_t q, int e) {
  return probability_at(Place(q < 0 ? -q : q, e), q < 0);
}

NormalQ30 normal_q30(int64_t q, int e) {
  const Place place(q < 0 ? -q : q, e);
  return {probability_at(place, q < 0), density_at(place)};
}

}  // namespace mantissa
