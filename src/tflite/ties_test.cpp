// The ways in which runtimes round a layer's sums, all of which the numbers of exported layers make
// equal: over all sums of small layers, and over sums up to the largest (0138).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "numerics/rounding.h"

namespace mantissa {
namespace {

// A multiplier below 1 as M 2^(shift - 31), 2^30 <= M < 2^31, as TensorFlow Lite has it.
struct Multiplier {
  int32_t fraction;
  int shift;
};

Multiplier multiplier_of(float in, float weights, float out) {
  const double real = double{in} * double{weights} / double{out};
  int shift = 0;
  const double fraction = std::frexp(real, &shift);
  auto fixed = static_cast<int64_t>(std::round(fraction * (int64_t{1} << 31)));
  if (fixed == int64_t{1} << 31) {
    fixed /= 2;
    ++shift;
  }
  return {static_cast<int32_t>(fixed), shift};
}

// gemmlowp: a doubling high multiplication, then a shift that rounds halves away from zero.
int64_t rounded_twice(int64_t sum, const Multiplier& m) {
  const int left = std::max(0, m.shift), right = std::max(0, -m.shift);
  const int64_t product = sum * (int64_t{1} << left) * m.fraction;
  const int64_t nudge = product >= 0 ? int64_t{1} << 30 : 1 - (int64_t{1} << 30);
  const int64_t high = (product + nudge) / (int64_t{1} << 31);
  const int64_t mask = (int64_t{1} << right) - 1, rest = high & mask;
  const int64_t threshold = (mask >> 1) + (high < 0 ? 1 : 0);
  return (high >> right) + (rest > threshold ? 1 : 0);
}

// One rounding, of halves up.
int64_t rounded_once(int64_t sum, const Multiplier& m) {
  const int right = 31 - m.shift;
  return (sum * m.fraction + (int64_t{1} << (right - 1))) >> right;
}

// XNNPACK: float32 products to nearest even.
int64_t rounded_in_float(int64_t sum, float in, float weights, float out) {
  const float product = static_cast<float>(sum) * (in * weights / out);
  return static_cast<int64_t>(std::nearbyint(std::clamp(product, -1e9f, 1e9f)));
}

// Ours (kernels/rescale).
int64_t rounded_here(int64_t sum, int shift) {
  return static_cast<int64_t>(std::nearbyint(std::ldexp(static_cast<float>(sum), -shift)));
}

int64_t byte(int64_t n) { return std::clamp<int64_t>(n, INT8_MIN, INT8_MAX); }

// Whether all ways give floor(h / 2^(shift - 1) + 1/2), where the sum is 2 h + 1.
void expect_one_result(int64_t sum, int shift) {
  const float in = 0.25f, out = 4.0f;
  const float weights = std::nextafter(std::ldexp(out / in, -shift), 0.0f);
  const Multiplier m = multiplier_of(in, weights, out);
  ASSERT_EQ(m.fraction, INT32_MAX - 127);
  const int64_t half = (sum - 1) / 2;
  const int64_t expected = byte(shift_right_rhu(half, shift - 1));
  ASSERT_EQ(byte(rounded_twice(sum, m)), expected) << sum << " " << shift;
  ASSERT_EQ(byte(rounded_once(sum, m)), expected) << sum << " " << shift;
  ASSERT_EQ(byte(rounded_in_float(sum, in, weights, out)), expected) << sum << " " << shift;
  ASSERT_EQ(byte(rounded_here(sum, shift)), expected) << sum << " " << shift;
}

TEST(Ties, AllSumsOfSmallLayers) {
  for (int shift = 2; shift <= 24; ++shift) {
    const int64_t most = std::min<int64_t>(int64_t{1} << 18, int64_t{1} << (shift + 8));
    for (int64_t sum = -most + 1; sum < most; sum += 2) {
      expect_one_result(sum, shift);
      if (HasFatalFailure()) return;
    }
  }
}

// Around every half of a mantissa, for the largest sums that the form has.
TEST(Ties, SumsNearTies) {
  for (int shift = 2; shift <= 24; ++shift) {
    const int64_t limit = shift <= 15 ? int64_t{1} << 30 : int64_t{1} << 23;
    for (int64_t tie = -300; tie <= 300; ++tie) {
      for (int64_t away = -65; away <= 65; away += 2) {
        const int64_t sum = (2 * tie + 1) * (int64_t{1} << (shift - 1)) + away;
        if (std::abs(sum) >= limit || sum % 2 == 0) continue;
        expect_one_result(sum, shift);
        if (HasFatalFailure()) return;
      }
    }
    for (int64_t sum = limit - 1; sum > 0; sum = sum / 2 | 1) {
      expect_one_result(sum, shift);
      expect_one_result(-sum, shift);
      if (HasFatalFailure() || sum == 1) break;
    }
  }
}

// Without the rules they differ: this is what they are for.
TEST(Ties, EvenSumsDiffer) {
  int64_t differing = 0;
  const Multiplier m = multiplier_of(1, std::ldexp(1.0f, -4), 1);
  for (int64_t sum = -2048; sum < 2048; ++sum) {
    differing += rounded_once(sum, m) != rounded_here(sum, 4);
  }
  EXPECT_EQ(differing, 4096 / 32);
}

}  // namespace
}  // namespace mantissa
