// Vectors of 8 doubles that compute integers, for AVX-512: as avx2/reals.h has them. Include it
// after integers.h.

using Reals [[gnu::vector_size(64)]] = double;

inline Reals to_reals(Lanes n) noexcept { return _mm512_cvtepi64_pd(reinterpret_cast<__m512i>(n)); }
// The processor approximates inverses to 2^-14, each its own way; a step of Newton squares that.
inline Reals near_root(Reals x) noexcept {
  const Reals inverse = _mm512_rsqrt14_pd(x), root = x * inverse;
  const Reals error = _mm512_fnmadd_pd(root, 0.5 * inverse, _mm512_set1_pd(0.5));
  return _mm512_fmadd_pd(root, error, root);  // times 1 - 1.5 * 2^-28 at worst
}
// If n / d lies between two integers it is a double, and the sum, which is nearer than half a unit
// in its last place, is that double. Otherwise n / d is further from the middle than two such
// units.
inline Reals near_quotient(Reals n, Reals d) noexcept {
  const Reals rough = _mm512_rcp14_pd(d);
  const Reals error = _mm512_fnmadd_pd(d, rough, _mm512_set1_pd(1));
  const Reals inverse = _mm512_fmadd_pd(rough, error, rough), quotient = n * inverse;
  return _mm512_fmadd_pd(_mm512_fnmadd_pd(quotient, d, n), inverse, quotient);
}
// The number of smaller magnitude, with the sign of the first.
inline Reals clipped(Reals n, Reals limit) noexcept { return _mm512_range_pd(n, limit, 2); }
