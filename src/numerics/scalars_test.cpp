// The real scalars of C, in 64 bits, against Real of C++, in 128.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cmath>

#include "base/random.h"
#include "numerics/adam.h"
#include "numerics/real.h"
#include "scalars/real.h"

namespace mantissa {
namespace {

uint64_t random_word(uint32_t i, uint32_t which) {
  return random_bits(7, RandomStream::kSynthetic, which, i);
}

// A double of any exponent from 2^-60 to 2^60, often with few bits, so that ties occur.
double random_double(uint32_t i, uint32_t which) {
  const uint64_t bits = random_word(i, which);
  const int kept = static_cast<int>(bits >> 3 & 63) % 53;
  const uint64_t fraction = (bits >> 12) >> kept << kept;
  const uint64_t exponent = 1023 - 60 + (random_word(i, which + 100) % 121);
  return std::bit_cast<double>(bits << 63 | exponent << 52 |
                               (fraction & ((uint64_t{1} << 52) - 1)));
}

uint64_t bits_of(const Real& real) { return std::bit_cast<uint64_t>(real.to_double()); }
RefReal plain(double number) { return ref_real_of_bits(std::bit_cast<uint64_t>(number)); }

TEST(ReferenceReal, ArithmeticEqualsTheEngines) {
  for (uint32_t i = 0; i < 200'000; ++i) {
    const double a = random_double(i, 1), b = random_double(i, 2);
    ASSERT_EQ(ref_bits_of_real(ref_real_sum(plain(a), plain(b))), bits_of(Real(a) + Real(b)))
        << a << " " << b;
    ASSERT_EQ(ref_bits_of_real(ref_real_difference(plain(a), plain(b))),
              bits_of(Real(a) - Real(b)));
    ASSERT_EQ(ref_bits_of_real(ref_real_product(plain(a), plain(b))), bits_of(Real(a) * Real(b)));
    ASSERT_EQ(ref_bits_of_real(ref_real_quotient(plain(a), plain(b))), bits_of(Real(a) / Real(b)));
    ASSERT_EQ(ref_bits_of_real(ref_real_root(plain(std::abs(a)))),
              bits_of(sqrt(Real(std::abs(a)))));
    // They are those of doubles, too.
    ASSERT_EQ(ref_bits_of_real(ref_real_root(plain(std::abs(a)))),
              std::bit_cast<uint64_t>(std::sqrt(std::abs(a))));
  }
}

TEST(ReferenceReal, WholeNumbersAndFixedPoint) {
  for (uint32_t i = 0; i < 200'000; ++i) {
    const auto n = static_cast<int64_t>(random_word(i, 3)) >> (random_word(i, 4) % 64);
    ASSERT_EQ(ref_bits_of_real(ref_real(n)), bits_of(Real(n))) << n;
    const double a = random_double(i, 5);
    const int bits = 1 + static_cast<int>(random_word(i, 6) % 40);
    const int shift = fixed_point_shift(Real(a), bits);
    ASSERT_EQ(ref_fixed_point_shift(plain(a), bits), shift);
    const int moved = shift + static_cast<int>(random_word(i, 7) % 20) - 10;
    const int64_t limit = mantissa_limit(bits + 1);
    ASSERT_EQ(ref_fixed_point(plain(a), moved, limit), to_fixed_point(Real(a), moved, limit));
  }
}

TEST(ReferenceReal, PowersAndNumbersThatAreNotFinite) {
  for (const int64_t exponent : {0, 1, 2, 7, 1000, 123456}) {
    ASSERT_EQ(ref_bits_of_real(ref_real_power(plain(0.999), exponent)),
              bits_of(power(Real(0.999), exponent)));
  }
  EXPECT_FALSE(ref_real_is_finite(ref_real_quotient(plain(1), plain(0))));
  EXPECT_FALSE(ref_real_is_finite(ref_real_root(plain(-1))));
  EXPECT_FALSE(ref_real_is_finite(ref_real_sum(ref_real_quotient(plain(1), plain(0)), plain(1))));
  EXPECT_EQ(ref_bits_of_real(plain(0)), 0u);
}

}  // namespace
}  // namespace mantissa
