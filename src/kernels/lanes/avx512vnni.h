// Vectors of 8 int64 for AVX-512: see arithmetic.h.
//
// Include inside an anonymous namespace of mantissa::kernels and a region for AVX-512, after
// <immintrin.h> and <cstring>.

constexpr int64_t kLanes = 8;
constexpr bool kHas64BitLanes = true;
using Lanes [[gnu::vector_size(64)]] = int64_t;
using UnsignedLanes [[gnu::vector_size(64)]] = uint64_t;

inline Lanes load(const int64_t* from) noexcept {
  return reinterpret_cast<Lanes>(_mm512_loadu_si512(from));
}
inline Lanes load(const int32_t* from) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
inline Lanes load(const int16_t* from) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_cvtepi16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
inline Lanes load(const int8_t* from) noexcept {
  return reinterpret_cast<Lanes>(_mm512_cvtepi8_epi64(_mm_loadu_si64(from)));
}

inline void store(int64_t* to, Lanes lanes) noexcept { std::memcpy(to, &lanes, sizeof(lanes)); }
inline void store(int32_t* to, Lanes lanes) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi64_epi32(reinterpret_cast<__m512i>(lanes)));
}
inline void store(int16_t* to, Lanes lanes) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_cvtepi64_epi16(reinterpret_cast<__m512i>(lanes)));
}

inline Lanes product(Lanes a, Lanes b) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_mul_epi32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
inline Lanes unsigned_product(Lanes a, Lanes b) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
