// Vectors of 32 words (int16), or of 16 int32, for AVX-512: as avx2/pairs.h has them.

using Vector = __m512i;
constexpr int64_t kLanes = 32;  // words

MANTISSA_INLINE Vector load(const void* from) { return _mm512_loadu_si512(from); }
MANTISSA_INLINE void store(void* to, Vector vector) { _mm512_storeu_si512(to, vector); }
MANTISSA_INLINE Vector zeros() { return _mm512_setzero_si512(); }
MANTISSA_INLINE Vector all_words(int16_t word) { return _mm512_set1_epi16(word); }
MANTISSA_INLINE Vector all_dwords(int32_t number) { return _mm512_set1_epi32(number); }

MANTISSA_INLINE __m256i load_bytes(const int8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
MANTISSA_INLINE Vector load_words(const int16_t* from) { return load(from); }
MANTISSA_INLINE Vector load_words(const int8_t* from) {
  return _mm512_cvtepi8_epi16(load_bytes(from));
}
MANTISSA_INLINE Vector load_words(__mmask32 mask, const int16_t* from) {
  return _mm512_maskz_loadu_epi16(mask, from);
}
MANTISSA_INLINE Vector load_words(__mmask32 mask, const int8_t* from) {
  return _mm512_maskz_cvtepi8_epi16(mask, load_bytes(from));
}
template <bool kMasked, typename T>
MANTISSA_INLINE Vector load_passing(const T* from, const int8_t* outputs, int64_t at) {
  if constexpr (!kMasked) return load_words(from + at);
  return load_words(_mm256_cmpgt_epi8_mask(load_bytes(outputs + at), _mm256_setzero_si256()),
                    from + at);
}

MANTISSA_INLINE void store_narrow(int16_t* to, Vector words) { store(to, words); }
MANTISSA_INLINE void store_narrow(int8_t* to, Vector words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(words));
}

MANTISSA_INLINE Vector lower_pairs(Vector a, Vector b) { return _mm512_unpacklo_epi16(a, b); }
MANTISSA_INLINE Vector upper_pairs(Vector a, Vector b) { return _mm512_unpackhi_epi16(a, b); }
MANTISSA_INLINE Vector pack(Vector lower, Vector upper) { return _mm512_packs_epi32(lower, upper); }
MANTISSA_INLINE Vector add_products(Vector sum, Vector a, Vector b) {
  return _mm512_dpwssd_epi32(sum, a, b);
}

MANTISSA_INLINE Vector add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
MANTISSA_INLINE Vector upper_words(Vector dwords) { return _mm512_srai_epi32(dwords, 16); }
MANTISSA_INLINE Vector shift_right(Vector dwords, __m128i count) {
  return _mm512_sra_epi32(dwords, count);
}
MANTISSA_INLINE Vector shift_left(Vector dwords, __m128i count) {
  return _mm512_sll_epi32(dwords, count);
}
MANTISSA_INLINE Vector blend_words(Vector upper, Vector lower) {
  return _mm512_mask_blend_epi16(0x55555555, upper, lower);
}

MANTISSA_INLINE Vector add_words(Vector a, Vector b) { return _mm512_add_epi16(a, b); }
MANTISSA_INLINE Vector subtract_words(Vector a, Vector b) { return _mm512_sub_epi16(a, b); }
MANTISSA_INLINE Vector shift_right_words(Vector words, __m128i count) {
  return _mm512_sra_epi16(words, count);
}
MANTISSA_INLINE Vector shift_left_words(Vector words, __m128i count) {
  return _mm512_sll_epi16(words, count);
}
MANTISSA_INLINE Vector min_words(Vector a, Vector b) { return _mm512_min_epi16(a, b); }
MANTISSA_INLINE Vector max_words(Vector a, Vector b) { return _mm512_max_epi16(a, b); }
MANTISSA_INLINE Vector min_dwords(Vector a, Vector b) { return _mm512_min_epi32(a, b); }
MANTISSA_INLINE Vector max_dwords(Vector a, Vector b) { return _mm512_max_epi32(a, b); }
MANTISSA_INLINE Vector min_unsigned_words(Vector a, Vector b) { return _mm512_min_epu16(a, b); }
MANTISSA_INLINE Vector min_unsigned_dwords(Vector a, Vector b) { return _mm512_min_epu32(a, b); }

MANTISSA_INLINE bool all_words_within(Vector low, Vector high, int16_t least, int16_t most) {
  return (_mm512_cmpgt_epi16_mask(all_words(least), low) |
          _mm512_cmpgt_epi16_mask(high, all_words(most))) == 0;
}
MANTISSA_INLINE bool all_dwords_within(Vector low, Vector high, int32_t least, int32_t most) {
  return (_mm512_cmpgt_epi32_mask(all_dwords(least), low) |
          _mm512_cmpgt_epi32_mask(high, all_dwords(most))) == 0;
}
MANTISSA_INLINE bool has_zero_dword(Vector dwords) {
  return _mm512_testn_epi32_mask(dwords, dwords) != 0;
}
MANTISSA_INLINE bool has_zero_lower_word(Vector dwords) {
  return _mm512_testn_epi32_mask(dwords, all_dwords(0xffff)) != 0;
}
MANTISSA_INLINE int64_t count_different_words(Vector a, Vector b) {
  return __builtin_popcount(_mm512_cmpneq_epi16_mask(a, b));
}
MANTISSA_INLINE int64_t count_different_dwords(Vector a, Vector b) {
  return __builtin_popcount(_mm512_cmpneq_epi32_mask(a, b));
}
