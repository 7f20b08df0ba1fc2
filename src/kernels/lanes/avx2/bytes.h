// Vectors of 32 uint8 or 16 uint16 for AVX2: see kernels/lanes/lanes.h.

constexpr size_t kVectorBytes = 32;
using Bytes [[gnu::vector_size(32)]] = uint8_t;
using Words [[gnu::vector_size(32)]] = uint16_t;

// Bytes of a table of 16, in each part of 16 bytes; each place is below 16.
inline Bytes look_up(Bytes table, Bytes places) noexcept {
  return reinterpret_cast<Bytes>(
      _mm256_shuffle_epi8(reinterpret_cast<__m256i>(table), reinterpret_cast<__m256i>(places)));
}
// Magnitudes of int8, of int16.
inline Bytes absolute(Bytes numbers) noexcept {
  return reinterpret_cast<Bytes>(_mm256_abs_epi8(reinterpret_cast<__m256i>(numbers)));
}
inline Words absolute(Words numbers) noexcept {
  return reinterpret_cast<Words>(_mm256_abs_epi16(reinterpret_cast<__m256i>(numbers)));
}
// Values below 256, in any order.
inline Bytes pack(Words first, Words second) noexcept {
  return reinterpret_cast<Bytes>(
      _mm256_packus_epi16(reinterpret_cast<__m256i>(first), reinterpret_cast<__m256i>(second)));
}
