// Real scalars by integers: 53 bits, rounded to nearest even, as numerics/real.h has them. Bit for
// bit what IEEE 754 doubles give, but overflow and underflow come much later. Nothing needs more
// than 64 bits.
#pragma once

#include "reference/types.h"

// mantissa * 2^exponent; the mantissa is 0, or has 53 bits.
typedef struct DevReal {
  int64_t mantissa;
  int32_t exponent;  // INT32_MAX: not finite, as after a division by zero
} DevReal;

REF_BEGIN

DevReal dev_real(int64_t n) REF_NOEXCEPT;
// The bits of a double, and back. Numbers below the normal doubles are zero.
DevReal dev_real_of_bits(uint64_t bits) REF_NOEXCEPT;
uint64_t dev_bits_of_real(DevReal a) REF_NOEXCEPT;

bool dev_is_finite(DevReal a) REF_NOEXCEPT;
DevReal dev_negative(DevReal a) REF_NOEXCEPT;
DevReal dev_magnitude(DevReal a) REF_NOEXCEPT;
DevReal dev_sum(DevReal a, DevReal b) REF_NOEXCEPT;
DevReal dev_difference(DevReal a, DevReal b) REF_NOEXCEPT;
DevReal dev_product(DevReal a, DevReal b) REF_NOEXCEPT;
DevReal dev_quotient(DevReal a, DevReal b) REF_NOEXCEPT;
DevReal dev_root(DevReal a) REF_NOEXCEPT;
// a * 2^exponent.
DevReal dev_scaled(DevReal a, int exponent) REF_NOEXCEPT;
// base^exponent, by squaring; exponent >= 0.
DevReal dev_power(DevReal base, int64_t exponent) REF_NOEXCEPT;
DevReal dev_larger(DevReal a, DevReal b) REF_NOEXCEPT;

// k with 2^(bits-1) <= peak * 2^k < 2^bits for peak != 0; 0 for peak = 0.
int dev_fixed_point_shift(DevReal peak, int bits) REF_NOEXCEPT;
// a * 2^shift to nearest even, clipped to +-limit; 0 if it is not finite.
int64_t dev_fixed_point(DevReal a, int shift, int64_t limit) REF_NOEXCEPT;

REF_END
