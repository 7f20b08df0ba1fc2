// Real numbers as mantissas of a block, against ldexp and nearbyint.
#include "runtime/set_numbers.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/random.h"

namespace mantissa {
namespace {

constexpr int kMostShift = 15;

// Numbers of every magnitude that a float or a double has, ties, and subnormal ones.
std::vector<double> all_magnitudes(int exponent) {
  std::vector<double> numbers = {0.0,
                                 -0.0,
                                 std::numeric_limits<double>::denorm_min(),
                                 -std::numeric_limits<float>::denorm_min(),
                                 std::numeric_limits<float>::max(),
                                 1e300,
                                 -1e300};
  for (int i = 0; i < 600; ++i) {
    const uint64_t bits = random_bits(3, RandomStream::kShuffle, 0, static_cast<uint64_t>(i));
    const double number = static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-63;
    numbers.push_back(std::ldexp(number, i % 320 - 180));
    numbers.push_back(std::ldexp(static_cast<double>(i - 300) + 0.5, exponent));
    numbers.push_back(std::ldexp(number, exponent + 7));
  }
  return numbers;
}

template <typename Mantissa>
void expect_nearest(int bits, int exponent, int shift) {
  const std::vector<double> numbers = all_magnitudes(exponent);
  const auto count = std::ssize(numbers);
  std::vector<Mantissa> weights(numbers.size());
  std::vector<int16_t> accumulator(numbers.size());
  set_block([&](int64_t i) { return numbers[static_cast<size_t>(i)]; }, bits, WeightGrid{},
            exponent, shift, 0, count, weights.data(), accumulator.data());
  const double largest = std::ldexp(static_cast<double>(mantissa_limit(bits)), shift);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double nearest = std::nearbyint(std::ldexp(numbers[i], shift - exponent));
    const double wanted = std::clamp(nearest, -largest, largest);
    ASSERT_EQ(static_cast<double>(lazy_value(weights[i], accumulator[i], shift)), wanted)
        << numbers[i] << " at 2^" << exponent << " and a shift of " << shift;
  }
}

TEST(SetNumbers, AreTheNearestAtEveryExponent) {
  for (int exponent = kExponentMin; exponent <= kExponentMax; ++exponent) {
    for (const int shift : {0, 8, kMostShift}) {
      expect_nearest<int8_t>(8, exponent, shift);
      expect_nearest<int16_t>(16, exponent, shift);
    }
  }
}

}  // namespace
}  // namespace mantissa
