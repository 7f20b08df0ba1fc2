// Vectors of 4 int64, 8 int32 or 16 int16 for AVX2: see kernels/lanes/lanes.h and arithmetic.h.
//
// Include it after <bit> and <cstring>.
//
// Lanes are kLanes int64, Words 2 * kLanes int32.
//   load(p)                 int8, int16, int32 or int64, sign extended to Lanes
//   store(p, lanes)         the low 32 bits, or all
//   product, unsigned_product    of the lanes' low 32 bits
//   kHas64BitLanes          whether there are a product and an arithmetic shift of 64 bits
//   interleaved, interleaved_highs(evens, odds)    the low 32 bits of both, or the others
//   sums_of_products(a, b)  of the halves of words, 16 bits each; add_products adds these
//   load_evens, load_odds   of 2 * kLanes int64

constexpr int64_t kLanes = 4;
constexpr bool kHas64BitLanes = false;
using Lanes [[gnu::vector_size(32)]] = int64_t;
using UnsignedLanes [[gnu::vector_size(32)]] = uint64_t;
using Words [[gnu::vector_size(32)]] = int32_t;
using Bytes [[gnu::vector_size(32)]] = int8_t;
using Halves [[gnu::vector_size(32)]] = int16_t;
using UnsignedHalves [[gnu::vector_size(32)]] = uint16_t;

inline Lanes load(const int64_t* from) noexcept {
  return reinterpret_cast<Lanes>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline Lanes load(const int16_t* from) noexcept {
  return reinterpret_cast<Lanes>(_mm256_cvtepi16_epi64(_mm_loadu_si64(from)));
}
inline Lanes load(const int8_t* from) noexcept {
  return reinterpret_cast<Lanes>(_mm256_cvtepi8_epi64(_mm_loadu_si32(from)));
}
inline Lanes load(const int32_t* from) noexcept {
  return reinterpret_cast<Lanes>(
      _mm256_cvtepi32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

inline void store(int64_t* to, Lanes lanes) noexcept { std::memcpy(to, &lanes, sizeof(lanes)); }
inline void store(int32_t* to, Lanes lanes) noexcept {
  const __m256i evens = _mm256_permutevar8x32_epi32(reinterpret_cast<__m256i>(lanes),
                                                    _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(evens));
}

inline Lanes product(Lanes a, Lanes b) noexcept {
  return reinterpret_cast<Lanes>(
      _mm256_mul_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
inline Lanes unsigned_product(Lanes a, Lanes b) noexcept {
  return reinterpret_cast<Lanes>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

inline Words sums_of_products(Words a, Words b) noexcept {
  return reinterpret_cast<Words>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

inline Words add_products(Words sums, Words a, Words b) noexcept {
  return sums + sums_of_products(a, b);
}

inline Words load_words(const int32_t* from) noexcept {
  return reinterpret_cast<Words>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline Words load_words(const int16_t* from) noexcept {
  return reinterpret_cast<Words>(
      _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
inline Words load_words(const int8_t* from) noexcept {
  return reinterpret_cast<Words>(_mm256_cvtepi8_epi32(_mm_loadu_si64(from)));
}
inline Lanes load_evens(const int64_t* from) noexcept {
  const __m256i pairs = _mm256_unpacklo_epi64(reinterpret_cast<__m256i>(load(from)),
                                              reinterpret_cast<__m256i>(load(from + 4)));
  return reinterpret_cast<Lanes>(_mm256_permute4x64_epi64(pairs, 0xd8));
}
inline Lanes load_odds(const int64_t* from) noexcept {
  const __m256i pairs = _mm256_unpackhi_epi64(reinterpret_cast<__m256i>(load(from)),
                                              reinterpret_cast<__m256i>(load(from + 4)));
  return reinterpret_cast<Lanes>(_mm256_permute4x64_epi64(pairs, 0xd8));
}

inline void store_words(int64_t* to, Words words) noexcept {
  const auto bits = reinterpret_cast<__m256i>(words);
  store(to, reinterpret_cast<Lanes>(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(bits))));
  store(to + 4, reinterpret_cast<Lanes>(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(bits, 1))));
}
inline void store_words(int32_t* to, Words words) noexcept {
  std::memcpy(to, &words, sizeof(words));
}
inline void store_words(int16_t* to, Words words) noexcept {
  const __m256i low_bits =
      _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                       -1, -1, -1, 0, 1, 4, 5, 8, 9, 12, 13);
  const __m256i halves = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(words), low_bits);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_or_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
}

inline void store_words(int8_t* to, Words words) noexcept {
  const __m256i low_bits =
      _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                       0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i halves = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(words), low_bits);
  _mm_storeu_si64(
      to, _mm_or_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
}

inline Words interleaved(Lanes evens, Lanes odds) noexcept {
  return reinterpret_cast<Words>(
      _mm256_blend_epi32(reinterpret_cast<__m256i>(evens),
                         _mm256_slli_epi64(reinterpret_cast<__m256i>(odds), 32), 0xaa));
}
inline Words interleaved_highs(Lanes evens, Lanes odds) noexcept {
  return reinterpret_cast<Words>(
      _mm256_blend_epi32(_mm256_srli_epi64(reinterpret_cast<__m256i>(evens), 32),
                         reinterpret_cast<__m256i>(odds), 0xaa));
}

inline Halves load_halves(const int8_t* from) noexcept {
  return reinterpret_cast<Halves>(
      _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
// Those that a byte holds.
inline void store_halves(int8_t* to, Halves halves) noexcept {
  const auto bits = reinterpret_cast<__m256i>(halves);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packs_epi16(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
}

inline Halves shift_right(Halves halves, int count) noexcept {
  return reinterpret_cast<Halves>(
      _mm256_sra_epi16(reinterpret_cast<__m256i>(halves), _mm_cvtsi32_si128(count)));
}
inline Halves load_halves(const int16_t* from) noexcept {
  return reinterpret_cast<Halves>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

// 16 bytes, again in each part of 16 bytes.
inline Bytes repeated_row(const int8_t* row) noexcept {
  return reinterpret_cast<Bytes>(
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row))));
}
// Takes the bytes at these places, each below 16, of such bytes.
inline Bytes picked_from(Bytes row, Bytes places) noexcept {
  return reinterpret_cast<Bytes>(
      _mm256_shuffle_epi8(reinterpret_cast<__m256i>(row), reinterpret_cast<__m256i>(places)));
}
inline Bytes upper_four(Bytes bytes) noexcept {
  return reinterpret_cast<Bytes>(_mm256_and_si256(
      _mm256_srli_epi16(reinterpret_cast<__m256i>(bytes), 4), _mm256_set1_epi8(15)));
}

inline UnsignedLanes exclusive_or(UnsignedLanes a, UnsignedLanes b, UnsignedLanes c) noexcept {
  return a ^ b ^ c;
}
inline UnsignedHalves shift_right(UnsignedHalves halves, int count) noexcept {
  return reinterpret_cast<UnsignedHalves>(
      _mm256_srl_epi16(reinterpret_cast<__m256i>(halves), _mm_cvtsi32_si128(count)));
}
inline int64_t count_different(Halves a, Halves b) noexcept {
  const auto equal = _mm256_cmpeq_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
  return std::popcount(~static_cast<uint32_t>(_mm256_movemask_epi8(equal))) / 2;
}
inline bool all_zero(Words words) noexcept {
  const auto all = reinterpret_cast<__m256i>(words);
  return _mm256_testz_si256(all, all) != 0;
}

// Packs 16 words.
inline __m256i packed(__m256i first, __m256i second) noexcept {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(first, second), 0xd8);
}
// The low 16 bits of each of 16 words, then the high ones.
inline void store_halves_apart(uint16_t* to, const Words (&words)[2]) noexcept {
  const __m256i low_half = _mm256_set1_epi32(0xffff);
  const auto first = reinterpret_cast<__m256i>(words[0]);
  const auto second = reinterpret_cast<__m256i>(words[1]);
  auto* halves = reinterpret_cast<__m256i*>(to);
  _mm256_storeu_si256(
      halves, packed(_mm256_and_si256(first, low_half), _mm256_and_si256(second, low_half)));
  _mm256_storeu_si256(halves + 1,
                      packed(_mm256_srli_epi32(first, 16), _mm256_srli_epi32(second, 16)));
}

// A vector that begins with the words as int16 or int8, which hold them.
inline __m128i narrowed(Words words, int16_t) noexcept {
  const auto all = reinterpret_cast<__m256i>(words);
  return _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}
inline __m128i narrowed(Words words, int8_t) noexcept {
  const __m128i wide = narrowed(words, int16_t{});
  return _mm_packs_epi16(wide, wide);
}
