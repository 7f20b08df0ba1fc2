// Vectors of 4 doubles that compute integers, for AVX2: see kernels/lanes/lanes.h. Include it after
// integers.h.

using Reals [[gnu::vector_size(32)]] = double;

// Integers, 0 <= n <= 2^52 or |n| < 2^51. An integer n and the double 2^52 + n have the same bits
// except for a constant. With 2^51 more, n may be negative.
inline Reals to_reals(Lanes n) noexcept {
  const Reals from = _mm256_blendv_pd(_mm256_set1_pd(0x1p52), _mm256_set1_pd(0x1.8p52),
                                      reinterpret_cast<__m256d>(n));
  return reinterpret_cast<Reals>(n + reinterpret_cast<Lanes>(from)) - from;
}
// sqrt(x) for x in [1, 2^52], within 0.4.
inline Reals near_root(Reals x) noexcept { return _mm256_sqrt_pd(x); }
// A double that rounds to the integer to which n / d rounds. Both are integers, d in [1, 2^29),
// |n / d| <= 2^22. Here it is rounded to 53 bits. n / d needs fewer if it lies between two
// integers.
inline Reals near_quotient(Reals n, Reals d) noexcept { return n / d; }
// n, or a number of its sign and of magnitude `limit`.
inline Reals clipped(Reals n, Reals limit) noexcept {
  const Reals low = n < -limit ? -limit : n;
  return low > limit ? limit : low;
}
