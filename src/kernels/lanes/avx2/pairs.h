// Vectors of 16 words (int16), or of 8 int32, for AVX2: see kernels/lanes/lanes.h. Products of
// words are added in pairs.

using Vector = __m256i;
constexpr int64_t kLanes = 16;  // words

MANTISSA_INLINE Vector load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
MANTISSA_INLINE void store(void* to, Vector vector) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), vector);
}
MANTISSA_INLINE Vector zeros() { return _mm256_setzero_si256(); }
MANTISSA_INLINE Vector all_words(int16_t word) { return _mm256_set1_epi16(word); }
MANTISSA_INLINE Vector all_dwords(int32_t number) { return _mm256_set1_epi32(number); }

// As many elements as there are lanes, widened to words.
MANTISSA_INLINE Vector load_words(const int16_t* from) { return load(from); }
MANTISSA_INLINE Vector load_words(const int8_t* from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
// The same, and 0 if the output is not positive: the ReLU after the batch norm stops these.
template <bool kMasked, typename T>
MANTISSA_INLINE Vector load_passing(const T* from, const int8_t* outputs, int64_t at) {
  if constexpr (!kMasked) return load_words(from + at);
  return _mm256_and_si256(load_words(from + at),
                          _mm256_cmpgt_epi16(load_words(outputs + at), zeros()));
}

// Words that fit the type.
MANTISSA_INLINE void store_narrow(int16_t* to, Vector words) { store(to, words); }
MANTISSA_INLINE void store_narrow(int8_t* to, Vector words) {
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

// Pairs of the words of a and b, lane by lane: of the lower and upper four of each 128 bits.
MANTISSA_INLINE Vector lower_pairs(Vector a, Vector b) { return _mm256_unpacklo_epi16(a, b); }
MANTISSA_INLINE Vector upper_pairs(Vector a, Vector b) { return _mm256_unpackhi_epi16(a, b); }
// Undoes that order: int32, which saturate, to words.
MANTISSA_INLINE Vector pack(Vector lower, Vector upper) { return _mm256_packs_epi32(lower, upper); }
// sum + a * b. a and b are pairs of words; the products of a pair are added.
MANTISSA_INLINE Vector add_products(Vector sum, Vector a, Vector b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

MANTISSA_INLINE Vector add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
MANTISSA_INLINE Vector upper_words(Vector dwords) { return _mm256_srai_epi32(dwords, 16); }
MANTISSA_INLINE Vector shift_right(Vector dwords, __m128i count) {
  return _mm256_sra_epi32(dwords, count);
}
MANTISSA_INLINE Vector shift_left(Vector dwords, __m128i count) {
  return _mm256_sll_epi32(dwords, count);
}
// The lower word of each int32 from `lower`, the other one from `upper`.
MANTISSA_INLINE Vector blend_words(Vector upper, Vector lower) {
  return _mm256_blend_epi16(upper, lower, 0x55);
}

MANTISSA_INLINE Vector add_words(Vector a, Vector b) { return _mm256_add_epi16(a, b); }
MANTISSA_INLINE Vector subtract_words(Vector a, Vector b) { return _mm256_sub_epi16(a, b); }
MANTISSA_INLINE Vector shift_right_words(Vector words, __m128i count) {
  return _mm256_sra_epi16(words, count);
}
MANTISSA_INLINE Vector shift_left_words(Vector words, __m128i count) {
  return _mm256_sll_epi16(words, count);
}
MANTISSA_INLINE Vector min_words(Vector a, Vector b) { return _mm256_min_epi16(a, b); }
MANTISSA_INLINE Vector max_words(Vector a, Vector b) { return _mm256_max_epi16(a, b); }
MANTISSA_INLINE Vector min_dwords(Vector a, Vector b) { return _mm256_min_epi32(a, b); }
MANTISSA_INLINE Vector max_dwords(Vector a, Vector b) { return _mm256_max_epi32(a, b); }
MANTISSA_INLINE Vector min_unsigned_words(Vector a, Vector b) { return _mm256_min_epu16(a, b); }
MANTISSA_INLINE Vector min_unsigned_dwords(Vector a, Vector b) { return _mm256_min_epu32(a, b); }

MANTISSA_INLINE bool is_zero(Vector vector) { return _mm256_testz_si256(vector, vector) != 0; }
MANTISSA_INLINE bool all_words_within(Vector low, Vector high, int16_t least, int16_t most) {
  return is_zero(_mm256_or_si256(_mm256_cmpgt_epi16(all_words(least), low),
                                 _mm256_cmpgt_epi16(high, all_words(most))));
}
MANTISSA_INLINE bool all_dwords_within(Vector low, Vector high, int32_t least, int32_t most) {
  return is_zero(_mm256_or_si256(_mm256_cmpgt_epi32(all_dwords(least), low),
                                 _mm256_cmpgt_epi32(high, all_dwords(most))));
}
MANTISSA_INLINE bool has_zero_dword(Vector dwords) {
  return !is_zero(_mm256_cmpeq_epi32(dwords, zeros()));
}
// Whether the lower word of an int32 is zero.
MANTISSA_INLINE bool has_zero_lower_word(Vector dwords) {
  return has_zero_dword(_mm256_slli_epi32(dwords, 16));
}
MANTISSA_INLINE int64_t count_different_words(Vector a, Vector b) {
  const auto equal = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi16(a, b)));
  return kLanes - __builtin_popcount(equal) / 2;
}
MANTISSA_INLINE int64_t count_different_dwords(Vector a, Vector b) {
  const auto equal = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi32(a, b)));
  return kLanes / 2 - __builtin_popcount(equal) / 4;
}
