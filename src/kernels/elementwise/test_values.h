// Operands for the tests and micro-benchmarks of the vectorised families: keyed random numbers,
// with the extremes of the type among them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"

namespace mantissa::kernels {

// Rows and channel counts that leave every kind of remainder of a vector.
constexpr int64_t kAwkwardSizes[] = {0, 1, 15, 16, 17, 63, 65, 1000};
constexpr int64_t kAwkwardChannels[] = {1, 3, 10, 16, 17, 32, 64};

// Widths of gradients: element types of up to 16 bits, full or not; then also the widths of
// gradients between two layers.
constexpr int kTestedGradientBits[] = {16, 12, 8, 6};
constexpr int kTestedWideGradientBits[] = {32, 16, 12, 8, 6};

// `count` numbers of random length of at most `bits` bits and a sign, a quarter of them from
// {-2^bits, -2^bits + 1, -1, 0, 1, 2^bits - 1}, clipped to T.
template <typename T>
std::vector<T> test_values(int64_t count, uint64_t seed, int bits) {
  std::vector<T> values(static_cast<size_t>(count));
  const int64_t top = int64_t{1} << bits;
  const int64_t extremes[] = {-top, 1 - top, -1, 0, 1, top - 1};
  constexpr auto kLow = static_cast<int64_t>(std::numeric_limits<T>::min());
  constexpr auto kHigh = static_cast<int64_t>(std::numeric_limits<T>::max());
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t random = random_bits(seed, RandomStream::kRound, 0, static_cast<uint64_t>(i));
    const int length = 1 + static_cast<int>((random >> 8) % static_cast<uint64_t>(bits));
    int64_t value = static_cast<int64_t>(random) >> (63 - length);
    if (random % 4 == 0) value = extremes[(random >> 4) % 6];
    values[static_cast<size_t>(i)] = static_cast<T>(value < kLow    ? kLow
                                                    : value > kHigh ? kHigh
                                                                    : value);
  }
  return values;
}

// The definitions that kernels are tested against, in 128 bits.
using Wide = __int128;

inline Wide exact_rne(Wide n, int shift) {
  if (shift <= 0) return n * (Wide{1} << (shift < -60 ? 60 : -shift));
  if (shift > 100) shift = 100;
  const Wide unit = Wide{1} << shift;
  Wide floor = n / unit;
  if (n % unit < 0) --floor;
  const Wide twice_rest = 2 * (n - floor * unit);
  if (twice_rest > unit || (twice_rest == unit && floor % 2 != 0)) ++floor;
  return floor;
}

inline Wide exact_saturate(Wide n, Wide limit) {
  return n > limit ? limit : n < -limit ? -limit : n;
}

inline uint64_t exact_magnitude(Wide n) { return static_cast<uint64_t>(n < 0 ? -n : n); }

}  // namespace mantissa::kernels
