#include "device/training/real.h"

#include "reference/numerics/numerics.h"

enum { kFractionBits = 52, kBias = 1023, kMostBiased = 2047, kMostExponent = 1 << 20 };
static const int64_t kHidden = INT64_C(1) << kFractionBits;

static DevReal not_finite(void) {
  const DevReal result = {0, INT32_MAX};
  return result;
}

static DevReal zero(void) {
  const DevReal result = {0, 0};
  return result;
}

// +-size * 2^exponent to 53 bits. If `size` has more than 54 bits, its lowest may stand for all
// bits below.
static DevReal rounded(uint64_t size, bool negative, int exponent) {
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
  const DevReal result = {negative ? -mantissa : mantissa, exponent};
  return result;
}

DevReal dev_real(int64_t n) { return rounded(ref_magnitude(n), n < 0, 0); }

DevReal dev_real_of_bits(uint64_t bits) {
  const int biased = (int)(bits >> kFractionBits & kMostBiased);
  if (biased == 0) return zero();
  if (biased == kMostBiased) return not_finite();
  const int64_t size = (int64_t)(bits & (uint64_t)(kHidden - 1)) | kHidden;
  const DevReal result = {bits >> 63 != 0 ? -size : size, biased - kBias - kFractionBits};
  return result;
}

uint64_t dev_bits_of_real(DevReal a) {
  const uint64_t infinite = (uint64_t)kMostBiased << kFractionBits;
  if (!dev_is_finite(a)) return infinite | 1;
  const int biased = a.exponent + kBias + kFractionBits;
  const uint64_t sign = a.mantissa < 0 ? (uint64_t)1 << 63 : 0;
  if (a.mantissa == 0 || biased <= 0) return 0;
  if (biased >= kMostBiased) return sign | infinite;
  return sign | (uint64_t)biased << kFractionBits |
         (ref_magnitude(a.mantissa) & (uint64_t)(kHidden - 1));
}

bool dev_is_finite(DevReal a) { return a.exponent != INT32_MAX; }

DevReal dev_negative(DevReal a) {
  a.mantissa = -a.mantissa;
  return a;
}

DevReal dev_magnitude(DevReal a) { return a.mantissa < 0 ? dev_negative(a) : a; }

// Nine bits below the larger unit. The lowest one is set if anything lies below it. If more than
// one bit is cancelled, nothing does.
DevReal dev_sum(DevReal a, DevReal b) {
  if (!dev_is_finite(a) || !dev_is_finite(b)) return not_finite();
  if (a.mantissa == 0) return b;
  if (b.mantissa == 0) return a;
  enum { kGuardBits = 9 };
  const DevReal large = a.exponent >= b.exponent ? a : b, small = a.exponent >= b.exponent ? b : a;
  const int distance = (int)ref_smaller(large.exponent - small.exponent, 63);
  const int64_t whole = small.mantissa * (1 << kGuardBits), shifted = whole >> distance;
  const bool inexact = ((uint64_t)whole & (((uint64_t)1 << distance) - 1)) != 0;
  const int64_t sum = large.mantissa * (1 << kGuardBits) + (shifted | (inexact ? 1 : 0));
  return rounded(ref_magnitude(sum), sum < 0, large.exponent - kGuardBits);
}

DevReal dev_difference(DevReal a, DevReal b) { return dev_sum(a, dev_negative(b)); }

// The product of 53 by 53 bits, as its upper bits and a lowest one that stands for the rest. By
// halves of 27 bits: the middle terms are below 2^54, so that their sum with the upper bits of the
// lowest fits 64.
DevReal dev_product(DevReal a, DevReal b) {
  if (!dev_is_finite(a) || !dev_is_finite(b)) return not_finite();
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

// 60 bits of the quotient, by long division: the rest stays below the divisor of 53 bits.
DevReal dev_quotient(DevReal a, DevReal b) {
  if (!dev_is_finite(a) || !dev_is_finite(b) || b.mantissa == 0) return not_finite();
  enum { kGuardBits = 60 };
  const uint64_t divisor = ref_magnitude(b.mantissa), numerator = ref_magnitude(a.mantissa);
  uint64_t quotient = numerator / divisor, rest = numerator % divisor;
  for (int bit = 0; bit < kGuardBits; ++bit) {
    rest <<= 1;
    const bool fits = rest >= divisor;
    rest -= fits ? divisor : 0;
    quotient = quotient << 1 | (fits ? 1 : 0);
  }
  return rounded(quotient | (rest != 0 ? 1 : 0), (a.mantissa < 0) != (b.mantissa < 0),
                 a.exponent - b.exponent - kGuardBits);
}

// 55 or 56 bits of the root, two bits of the square at a time: the rest stays below twice the root.
DevReal dev_root(DevReal a) {
  if (!dev_is_finite(a) || a.mantissa < 0) return not_finite();
  if (a.mantissa == 0) return a;
  const int left = 57 + ((a.exponent + 57) & 1);  // to 110 or 111 bits, and an even exponent
  uint64_t root = 0, rest = 0;
  for (int bit = 110; bit >= 0; bit -= 2) {
    // The bits `bit` + 1 and `bit` of mantissa * 2^left.
    const int at = bit - left;
    const uint64_t size = (uint64_t)a.mantissa;
    const uint64_t pair = at >= 0 ? size >> at & 3 : at == -1 ? size << 1 & 3 : 0;
    rest = rest << 2 | pair;
    const uint64_t trial = root << 2 | 1;
    const bool fits = rest >= trial;
    rest -= fits ? trial : 0;
    root = root << 1 | (fits ? 1 : 0);
  }
  return rounded(root | (rest != 0 ? 1 : 0), false, (a.exponent - left) / 2);
}

DevReal dev_scaled(DevReal a, int exponent) {
  if (dev_is_finite(a) && a.mantissa != 0) a.exponent += exponent;
  return a;
}

DevReal dev_power(DevReal base, int64_t exponent) {
  DevReal result = dev_real(1);
  for (; exponent > 0; exponent >>= 1, base = dev_product(base, base)) {
    if ((exponent & 1) != 0) result = dev_product(result, base);
  }
  return result;
}

DevReal dev_larger(DevReal a, DevReal b) { return dev_difference(a, b).mantissa < 0 ? b : a; }

int dev_fixed_point_shift(DevReal peak, int bits) {
  return peak.mantissa == 0 ? 0 : bits - (peak.exponent + kFractionBits + 1);
}

int64_t dev_fixed_point(DevReal a, int shift, int64_t limit) {
  if (a.mantissa == 0) return 0;
  const int right = -(a.exponent + shift);
  if (right > 62) return 0;
  if (right < -8) return a.mantissa < 0 ? -limit : limit;
  const int64_t scaled =
      right >= 0 ? ref_shift_right_rne(a.mantissa, right) : a.mantissa * (INT64_C(1) << -right);
  return ref_saturate(scaled, limit);
}
