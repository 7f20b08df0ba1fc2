#include "scalars/real.h"

#include "reference/numerics/numerics.h"

enum { kFractionBits = 52, kBias = 1023, kMostBiased = 2047, kMostExponent = 1 << 20 };
static const int64_t kHidden = INT64_C(1) << kFractionBits;

static RefReal not_finite(void) {
  const RefReal result = {0, INT32_MAX};
  return result;
}

static RefReal zero(void) {
  const RefReal result = {0, 0};
  return result;
}

// +-size * 2^exponent to 53 bits. If `size` has more than 54 bits, its lowest may stand for all
// bits below.
static RefReal rounded(uint64_t size, bool negative, int exponent) {
  if (size == 0) return zero();
  const int cut = ref_bit_length(size) - (kFractionBits + 1);
  int64_t mantissa = (int64_t)(cut <= 0 ? size << -cut : size >> cut);
  if (cut > 0) {
    const uint64_t rest = size & (((uint64_t)1 << cut) - 1), half = (uint64_t)1 << (cut - 1);
    mantissa += rest > half || (rest == half && (mantissa & 1) != 0) ? 1 : 0;
  }
  exponent += cut;
  if (mantissa == 2 * kHidden) {
    mantissa = kHidden;
    ++exponent;
  }
  if (exponent < -kMostExponent) return zero();
  if (exponent > kMostExponent) return not_finite();
  const RefReal result = {negative ? -mantissa : mantissa, exponent};
  return result;
}

RefReal ref_real(int64_t n) { return rounded(ref_magnitude(n), n < 0, 0); }

RefReal ref_real_of_bits(uint64_t bits) {
  const int biased = (int)(bits >> kFractionBits & kMostBiased);
  if (biased == 0) return zero();
  if (biased == kMostBiased) return not_finite();
  const int64_t size = (int64_t)(bits & (uint64_t)(kHidden - 1)) | kHidden;
  const RefReal result = {bits >> 63 != 0 ? -size : size, biased - kBias - kFractionBits};
  return result;
}

uint64_t ref_bits_of_real(RefReal a) {
  const uint64_t infinite = (uint64_t)kMostBiased << kFractionBits;
  if (!ref_real_is_finite(a)) return infinite | 1;
  const int biased = a.exponent + kBias + kFractionBits;
  const uint64_t sign = a.mantissa < 0 ? (uint64_t)1 << 63 : 0;
  if (a.mantissa == 0 || biased <= 0) return 0;
  if (biased >= kMostBiased) return sign | infinite;
  return sign | (uint64_t)biased << kFractionBits |
         (ref_magnitude(a.mantissa) & (uint64_t)(kHidden - 1));
}

bool ref_real_is_finite(RefReal a) { return a.exponent != INT32_MAX; }

RefReal ref_real_negative(RefReal a) {
  a.mantissa = -a.mantissa;
  return a;
}

RefReal ref_real_magnitude(RefReal a) { return a.mantissa < 0 ? ref_real_negative(a) : a; }

// Nine bits below the larger unit. The lowest one is set if anything lies below it. If more than
// one bit is cancelled, nothing does.
RefReal ref_real_sum(RefReal a, RefReal b) {
  if (!ref_real_is_finite(a) || !ref_real_is_finite(b)) return not_finite();
  if (a.mantissa == 0) return b;
  if (b.mantissa == 0) return a;
  enum { kGuardBits = 9 };
  const RefReal large = a.exponent >= b.exponent ? a : b, small = a.exponent >= b.exponent ? b : a;
  const int distance = (int)ref_smaller(large.exponent - small.exponent, 63);
  const int64_t whole = small.mantissa * (1 << kGuardBits), shifted = whole >> distance;
  const bool inexact = ((uint64_t)whole & (((uint64_t)1 << distance) - 1)) != 0;
  const int64_t sum = large.mantissa * (1 << kGuardBits) + (shifted | (inexact ? 1 : 0));
  return rounded(ref_magnitude(sum), sum < 0, large.exponent - kGuardBits);
}

RefReal ref_real_difference(RefReal a, RefReal b) { return ref_real_sum(a, ref_real_negative(b)); }

// The product of 53 by 53 bits, as its upper bits and a lowest one that stands for the rest. By
// halves of 27 bits: the middle terms are below 2^54, so that their sum with the upper bits of the
// lowest fits 64.
RefReal ref_real_product(RefReal a, RefReal b) {
  if (!ref_real_is_finite(a) || !ref_real_is_finite(b)) return not_finite();
  enum { kHalf = 27 };
  const uint64_t mask = ((uint64_t)1 << kHalf) - 1;
  const uint64_t x = ref_magnitude(a.mantissa), y = ref_magnitude(b.mantissa);
  const uint64_t x1 = x >> kHalf, x0 = x & mask, y1 = y >> kHalf, y0 = y & mask;
  const uint64_t low = x0 * y0, middle = x1 * y0 + x0 * y1 + (low >> kHalf);
  // In units of 2^54, cut to units of 2^44: the upper product has at most 52 bits.
  const uint64_t upper = x1 * y1 + (middle >> kHalf);
  const uint64_t below = (middle & mask) << kHalf | (low & mask);  // 54 bits
  const uint64_t size = upper << 10 | below >> 44;
  const bool inexact = (below & (((uint64_t)1 << 44) - 1)) != 0;
  return rounded(size | (inexact ? 1 : 0), (a.mantissa < 0) != (b.mantissa < 0),
                 a.exponent + b.exponent + 44);
}

// 55 bits of the quotient below the point, 11 at a time: a rest is below the divisor of 53 bits.
RefReal ref_real_quotient(RefReal a, RefReal b) {
  if (!ref_real_is_finite(a) || !ref_real_is_finite(b) || b.mantissa == 0) return not_finite();
  enum { kDigit = 11, kDigits = 5 };
  const uint64_t divisor = ref_magnitude(b.mantissa), numerator = ref_magnitude(a.mantissa);
  uint64_t quotient = numerator / divisor, rest = numerator % divisor;
  for (int digit = 0; digit < kDigits; ++digit) {
    rest <<= kDigit;
    quotient = quotient << kDigit | rest / divisor;
    rest %= divisor;
  }
  return rounded(quotient | (rest != 0 ? 1 : 0), (a.mantissa < 0) != (b.mantissa < 0),
                 a.exponent - b.exponent - kDigit * kDigits);
}

// The root of a number, and the number less its square, from 0 to twice the root.
typedef struct Root {
  uint64_t root;
  int64_t rest;
} Root;

// The root of n * 2^(2 bits) + below from the root of n, by one division (P. Zimmermann, "Karatsuba
// square root", 1999). Proof: with rest * 2^bits + (below >> bits) = digit * 2 root + u the number
// is (root * 2^bits + digit)^2 + u * 2^bits + (below mod 2^bits) - digit^2. u < 2 root, so the new
// root is not too small; where n has an even number of bits, digit^2 is at most twice the new root,
// and it is too large by one at most.
static Root with_digit(Root n, uint64_t below, int bits) {
  const uint64_t dividend = ((uint64_t)n.rest << bits) + (below >> bits), twice = 2 * n.root;
  const uint64_t digit = dividend / twice, u = dividend % twice;
  const uint64_t low = (u << bits) + (below & (((uint64_t)1 << bits) - 1));
  Root longer = {(n.root << bits) + digit, (int64_t)low - (int64_t)(digit * digit)};
  if (longer.rest < 0) longer.rest += (int64_t)(2 * --longer.root + 1);
  return longer;
}

// 55 bits of the root of n = mantissa * 2^56 or 2^57, of 109 or 110 bits: 8 of the uppermost 16
// bits, 16 of 32, 32 of 64, and the others with zeros below, whose rest of 33 bits times 2^23 fits
// 64.
RefReal ref_real_root(RefReal a) {
  if (!ref_real_is_finite(a) || a.mantissa < 0) return not_finite();
  if (a.mantissa == 0) return a;
  const int odd = a.exponent & 1;
  const uint64_t high = (uint64_t)a.mantissa << (10 + odd), top = high >> 48;
  const uint64_t first = ref_integer_root(top);
  Root n = {first, (int64_t)(top - first * first)};
  for (int left = 32; left >= -32; left -= 32) {  // a loop, since its body is long
    const uint64_t below = left > 0 ? high >> 32 & UINT16_MAX : left == 0 ? high & UINT32_MAX : 0;
    n = with_digit(n, below, left > 0 ? 8 : left == 0 ? 16 : 23);
  }
  return rounded(n.root | (n.rest != 0 ? 1 : 0), false, (a.exponent - odd) / 2 - 28);
}

RefReal ref_real_scaled(RefReal a, int exponent) {
  if (ref_real_is_finite(a) && a.mantissa != 0) a.exponent += exponent;
  return a;
}

RefReal ref_real_power(RefReal base, int64_t exponent) {
  RefReal result = ref_real(1);
  for (; exponent > 0; exponent >>= 1, base = ref_real_product(base, base)) {
    if ((exponent & 1) != 0) result = ref_real_product(result, base);
  }
  return result;
}

RefReal ref_real_larger(RefReal a, RefReal b) {
  return ref_real_difference(a, b).mantissa < 0 ? b : a;
}

int ref_fixed_point_shift(RefReal peak, int bits) {
  return peak.mantissa == 0 ? 0 : bits - (peak.exponent + kFractionBits + 1);
}

int64_t ref_fixed_point(RefReal a, int shift, int64_t limit) {
  if (a.mantissa == 0) return 0;
  const int right = -(a.exponent + shift);
  if (right > 62) return 0;
  if (right < -8) return a.mantissa < 0 ? -limit : limit;
  const int64_t scaled =
      right >= 0 ? ref_shift_right_rne(a.mantissa, right) : a.mantissa * (INT64_C(1) << -right);
  return ref_saturate(scaled, limit);
}
