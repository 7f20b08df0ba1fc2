// Real scalars, of a tensor, a channel or a row, by integers: 53 bits, rounded to nearest even. Bit
// for bit what IEEE 754 doubles give, but overflow and underflow come much later. numerics/real.h
// computes the same with integers of 128 bits.
#pragma once

#include "reference/types.h"

// mantissa * 2^exponent; the mantissa is 0, or has 53 bits.
typedef struct RefReal {
  int64_t mantissa;
  int32_t exponent;  // INT32_MAX: not finite, as after a division by zero
} RefReal;

REF_BEGIN

RefReal ref_real(int64_t n) REF_NOEXCEPT;
// The bits of a double, and back. Numbers below the normal doubles are zero.
RefReal ref_real_of_bits(uint64_t bits) REF_NOEXCEPT;
uint64_t ref_bits_of_real(RefReal a) REF_NOEXCEPT;

bool ref_real_is_finite(RefReal a) REF_NOEXCEPT;
RefReal ref_real_negative(RefReal a) REF_NOEXCEPT;
RefReal ref_real_magnitude(RefReal a) REF_NOEXCEPT;
RefReal ref_real_sum(RefReal a, RefReal b) REF_NOEXCEPT;
RefReal ref_real_difference(RefReal a, RefReal b) REF_NOEXCEPT;
RefReal ref_real_product(RefReal a, RefReal b) REF_NOEXCEPT;
RefReal ref_real_quotient(RefReal a, RefReal b) REF_NOEXCEPT;
RefReal ref_real_root(RefReal a) REF_NOEXCEPT;
// a * 2^exponent.
RefReal ref_real_scaled(RefReal a, int exponent) REF_NOEXCEPT;
// base^exponent, by squaring; exponent >= 0.
RefReal ref_real_power(RefReal base, int64_t exponent) REF_NOEXCEPT;
RefReal ref_real_larger(RefReal a, RefReal b) REF_NOEXCEPT;

// k with 2^(bits-1) <= peak * 2^k < 2^bits for peak != 0; 0 for peak = 0.
int ref_fixed_point_shift(RefReal peak, int bits) REF_NOEXCEPT;
// a * 2^shift to nearest even, clipped to +-limit; 0 if it is not finite.
int64_t ref_fixed_point(RefReal a, int shift, int64_t limit) REF_NOEXCEPT;

REF_END
