// Vectors of 8 int64, 16 int32 or 32 int16 for AVX-512: as avx2/integers.h has them.
//
// Include it after <bit> and <cstring>.

constexpr int64_t kLanes = 8;
constexpr bool kHas64BitLanes = true;
using Lanes [[gnu::vector_size(64)]] = int64_t;
using UnsignedLanes [[gnu::vector_size(64)]] = uint64_t;
using Words [[gnu::vector_size(64)]] = int32_t;
using Bytes [[gnu::vector_size(64)]] = int8_t;
using Halves [[gnu::vector_size(64)]] = int16_t;
using UnsignedHalves [[gnu::vector_size(64)]] = uint16_t;

inline Lanes load(const int64_t* from) noexcept {
  return reinterpret_cast<Lanes>(_mm512_loadu_si512(from));
}
inline Lanes load(const int16_t* from) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_cvtepi16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
inline Lanes load(const int8_t* from) noexcept {
  return reinterpret_cast<Lanes>(_mm512_cvtepi8_epi64(_mm_loadu_si64(from)));
}
inline Lanes load(const int32_t* from) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}

inline void store(int32_t* to, Lanes lanes) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi64_epi32(reinterpret_cast<__m512i>(lanes)));
}

inline Lanes product(Lanes a, Lanes b) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_mul_epi32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
inline Lanes unsigned_product(Lanes a, Lanes b) noexcept {
  return reinterpret_cast<Lanes>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

inline Words sums_of_products(Words a, Words b) noexcept {
  return reinterpret_cast<Words>(
      _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

inline Words add_products(Words sums, Words a, Words b) noexcept {
  return reinterpret_cast<Words>(_mm512_dpwssd_epi32(
      reinterpret_cast<__m512i>(sums), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

inline Words load_words(const int32_t* from) noexcept {
  return reinterpret_cast<Words>(_mm512_loadu_si512(from));
}
inline Words load_words(const int16_t* from) noexcept {
  return reinterpret_cast<Words>(
      _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
inline Words load_words(const int8_t* from) noexcept {
  return reinterpret_cast<Words>(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
inline Lanes load_evens(const int64_t* from) noexcept {
  const __m512i places = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
  return reinterpret_cast<Lanes>(
      _mm512_permutex2var_epi64(_mm512_loadu_si512(from), places, _mm512_loadu_si512(from + 8)));
}
inline Lanes load_odds(const int64_t* from) noexcept {
  const __m512i places = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
  return reinterpret_cast<Lanes>(
      _mm512_permutex2var_epi64(_mm512_loadu_si512(from), places, _mm512_loadu_si512(from + 8)));
}

inline void store_words(int64_t* to, Words words) noexcept {
  const auto bits = reinterpret_cast<__m512i>(words);
  _mm512_storeu_si512(to, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(bits)));
  _mm512_storeu_si512(to + 8, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(bits, 1)));
}
inline void store_words(int32_t* to, Words words) noexcept {
  std::memcpy(to, &words, sizeof(words));
}
inline void store_words(int16_t* to, Words words) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(words)));
}

inline void store_words(int8_t* to, Words words) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(words)));
}

inline Words interleaved(Lanes evens, Lanes odds) noexcept {
  return reinterpret_cast<Words>(
      _mm512_mask_blend_epi32(0xaaaa, reinterpret_cast<__m512i>(evens),
                              _mm512_slli_epi64(reinterpret_cast<__m512i>(odds), 32)));
}
inline Words interleaved_highs(Lanes evens, Lanes odds) noexcept {
  return reinterpret_cast<Words>(
      _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(reinterpret_cast<__m512i>(evens), 32),
                              reinterpret_cast<__m512i>(odds)));
}

inline Halves load_halves(const int8_t* from) noexcept {
  return reinterpret_cast<Halves>(
      _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
inline void store_halves(int8_t* to, Halves halves) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi16_epi8(reinterpret_cast<__m512i>(halves)));
}

inline Halves shift_right(Halves halves, int count) noexcept {
  return reinterpret_cast<Halves>(_mm512_srav_epi16(
      reinterpret_cast<__m512i>(halves), _mm512_set1_epi16(static_cast<int16_t>(count))));
}
inline Halves load_halves(const int16_t* from) noexcept {
  return reinterpret_cast<Halves>(_mm512_loadu_si512(from));
}

// 16 bytes, again in each part of 16 bytes.
inline Bytes repeated_row(const int8_t* row) noexcept {
  return reinterpret_cast<Bytes>(
      _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row))));
}
// Takes the bytes at these places, each below 16, of such bytes.
inline Bytes picked_from(Bytes row, Bytes places) noexcept {
  return reinterpret_cast<Bytes>(
      _mm512_shuffle_epi8(reinterpret_cast<__m512i>(row), reinterpret_cast<__m512i>(places)));
}
inline Bytes upper_four(Bytes bytes) noexcept {
  return reinterpret_cast<Bytes>(_mm512_and_si512(
      _mm512_srli_epi16(reinterpret_cast<__m512i>(bytes), 4), _mm512_set1_epi8(15)));
}

inline UnsignedLanes exclusive_or(UnsignedLanes a, UnsignedLanes b, UnsignedLanes c) noexcept {
  return reinterpret_cast<UnsignedLanes>(
      _mm512_ternarylogic_epi64(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b),
                                reinterpret_cast<__m512i>(c), 0x96));
}
inline UnsignedHalves shift_right(UnsignedHalves halves, int count) noexcept {
  return reinterpret_cast<UnsignedHalves>(_mm512_srlv_epi16(
      reinterpret_cast<__m512i>(halves), _mm512_set1_epi16(static_cast<int16_t>(count))));
}
inline int64_t count_different(Halves a, Halves b) noexcept {
  return std::popcount(
      _mm512_cmpneq_epi16_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
inline bool all_zero(Words words) noexcept {
  const auto all = reinterpret_cast<__m512i>(words);
  return _mm512_test_epi32_mask(all, all) == 0;
}

// The low 16 bits of each of 16 words, then the high ones.
inline void store_halves_apart(uint16_t* to, const Words (&words)[1]) noexcept {
  const __m512i places =
      _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24,
                       22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi16(places, reinterpret_cast<__m512i>(words[0])));
}

// A vector that begins with the words as int16 or int8, which hold them.
inline __m256i narrowed(Words words, int16_t) noexcept {
  return _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(words));
}
inline __m128i narrowed(Words words, int8_t) noexcept {
  return _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(words));
}
