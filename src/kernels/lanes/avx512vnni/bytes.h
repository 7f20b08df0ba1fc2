// Vectors of 64 uint8 or 32 uint16 for AVX-512: as avx2/bytes.h has them.

constexpr size_t kVectorBytes = 64;
using Bytes [[gnu::vector_size(64)]] = uint8_t;
using Words [[gnu::vector_size(64)]] = uint16_t;

inline Bytes look_up(Bytes table, Bytes places) noexcept {
  return reinterpret_cast<Bytes>(
      _mm512_shuffle_epi8(reinterpret_cast<__m512i>(table), reinterpret_cast<__m512i>(places)));
}
inline Bytes absolute(Bytes numbers) noexcept {
  return reinterpret_cast<Bytes>(_mm512_abs_epi8(reinterpret_cast<__m512i>(numbers)));
}
inline Words absolute(Words numbers) noexcept {
  return reinterpret_cast<Words>(_mm512_abs_epi16(reinterpret_cast<__m512i>(numbers)));
}
inline Bytes pack(Words first, Words second) noexcept {
  return reinterpret_cast<Bytes>(
      _mm512_packus_epi16(reinterpret_cast<__m512i>(first), reinterpret_cast<__m512i>(second)));
}
