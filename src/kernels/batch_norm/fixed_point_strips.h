// a * m + b * n + offset, exactly, in 32-bit lanes; a and b are int16, m and n int32.
//
// Include inside an anonymous namespace of mantissa::kernels, after strips.h and vectors.
//
// Vectors of 64-bit lanes have half as many lanes, and AVX2 has no arithmetic shift, minimum or
// narrowing of them. So multipliers are split into halves of 16 bits; add_products needs two of
// these for half a vector of words. A result is high * 2^16 + low, 0 <= low < 2^16. It is rounded
// by adding a half and shifting `high`. This is wrong for ties only, and the callers take care of
// them.

// The half is a multiple of 2^16, and `high` is shifted by less than its width.
constexpr int kSmallestShift = 17, kLargestShift = 47;

constexpr bool can_shift(int shift) { return kSmallestShift <= shift && shift <= kLargestShift; }

constexpr int64_t low_half(int64_t n) { return static_cast<int16_t>(n & 0xffff); }
constexpr int64_t high_half(int64_t n) { return (n - low_half(n)) >> 16; }

// The half that rounding adds.
constexpr int64_t half_of(int shift) { return int64_t{1} << (shift - 1); }

// Whether no result of a * m + b * n + offset + half leaves its lanes, for |a| <= 2^a_bits etc.
constexpr bool fits(int a_bits, int64_t m, int b_bits, int64_t n, int64_t offset, int shift) {
  if (high_half(m) > INT16_MAX || high_half(n) > INT16_MAX) return false;
  constexpr uint64_t kCarry = 1 << 15;  // of the lower halves
  return (magnitude(high_half(m)) << a_bits) + (magnitude(high_half(n)) << b_bits) + kCarry +
             magnitude(offset >> 16) + magnitude(half_of(shift) >> 16) <=
         INT32_MAX;
}

// The place of a strip's lane in the order of lower_pairs, then upper_pairs.
constexpr int64_t place_of(int64_t lane) {
  return (lane >> 2 & 1) * (kLanes / 2) + (lane >> 3) * 4 + (lane & 3);
}

// The constants of a strip.
struct alignas(64) StripConstants {
  int16_t low[2 * kLanes], high[2 * kLanes];  // pairs: of m and n
  int32_t low_offset[kLanes], high_offset[kLanes];

  void set(int64_t lane, int64_t m, int64_t n, int64_t offset) {
    const int64_t at = place_of(lane);
    low[2 * at] = static_cast<int16_t>(low_half(m));
    low[2 * at + 1] = static_cast<int16_t>(low_half(n));
    high[2 * at] = static_cast<int16_t>(high_half(m));
    high[2 * at + 1] = static_cast<int16_t>(high_half(n));
    low_offset[at] = static_cast<int32_t>(offset & 0xffff);
    high_offset[at] = static_cast<int32_t>(offset >> 16);
  }
};

// Half a vector of results; of `low` only the lower 16 bits count.
struct Wide {
  Vector high, low;
};

// The lower or upper half of a strip. Without kLowOffset offsets are multiples of 2^16.
template <bool kLowOffset>
struct HalfStrip {
  Vector low, high, low_offset, high_offset;

  MANTISSA_INLINE HalfStrip(const StripConstants& strip, int half)
      : low(load(strip.low + half * kLanes)),
        high(load(strip.high + half * kLanes)),
        low_offset(kLowOffset ? load(strip.low_offset + half * kLanes / 2) : zeros()),
        high_offset(load(strip.high_offset + half * kLanes / 2)) {}
  // `pairs`: a and b of these lanes.
  MANTISSA_INLINE Wide operator()(Vector pairs) const {
    const Vector lower = add_products(low_offset, pairs, low);
    return {add_products(add(high_offset, upper_words(lower)), pairs, high), lower};
  }
};

// Calls visit(block, constants) for all blocks of at most `height` rows, and before that
// set(channel, constants) for each strip; `channel` is the channel of its first lane.
template <typename Set, typename Visit>
MANTISSA_INLINE void for_each_block_with_constants(const LongRows& rows, int64_t short_channels,
                                                   int64_t height, Set&& set, Visit&& visit) {
  for_some_strips(rows, [&](int64_t begin, int64_t end) {
    StripConstants constants[kStripsAtATime];
    for (int64_t strip = begin; strip < end; ++strip) {
      set(strip * kLanes % short_channels, constants[strip - begin]);
    }
    for_each_block(
        rows, short_channels, begin, end, height,
        [&](const Block& block, int64_t strip) { visit(block, constants[strip - begin]); });
  });
}
