// Scale and offset, in strips.
//
// Include inside an anonymous namespace of mantissa::kernels, after fixed_point_strips.h and, in a
// namespace `loops`, batch_norm_loops.h.

// The addend of in * multiplier + offset with which a shift to the right rounds to nearest even
// for all values of `in`: a half, or one less if one value gives a tie that goes down. 0 if several
// values may give ties.
inline int64_t rounding(int64_t multiplier, int64_t offset, int shift) {
  const int64_t half = half_of(shift);
  // In a tie in * multiplier is this, modulo 2^shift.
  const auto rest = static_cast<uint64_t>(-(offset + half)) & ((uint64_t{1} << shift) - 1);
  const int trailing = std::min(shift, std::countr_zero(static_cast<uint64_t>(multiplier)));
  if ((rest & ((uint64_t{1} << trailing) - 1)) != 0) return half;
  if (trailing > shift - 8) return 0;
  // 1 / odd modulo 2^3, and by Newton's iteration modulo 2^6 and 2^12.
  const auto odd = static_cast<uint64_t>(multiplier >> trailing);
  uint64_t inverse = odd;
  inverse *= 2 - odd * inverse;
  inverse *= 2 - odd * inverse;
  // The only solution modulo 2^8, which may be none modulo 2^shift.
  const int64_t in = static_cast<int8_t>((rest >> trailing) * inverse & 0xff);
  const int64_t wide = in * multiplier + offset + half;
  const bool tie = (wide & (2 * half - 1)) == 0;
  return tie && (wide >> shift) % 2 != 0 ? half - 1 : half;
}

// A value is paired with a one, which brings the lower half of the offset.
inline void set_constants(const ScaleOffset& args, int64_t channel, StripConstants& strip) {
  for_each_lane(channel, args.channels, [&](int64_t lane, int64_t c) {
    const int64_t multiplier = args.multiplier[c];
    const int64_t offset = args.offset[c] + rounding(multiplier, args.offset[c], args.shift);
    strip.set(lane, multiplier, low_half(offset), offset - low_half(offset));
  });
}

// Writes a block. With kClips returns how many elements saturated; without, whether any did, and
// then these are written wrongly. kCoarse: negatives are.
template <bool kClips, bool kCoarse>
MANTISSA_INLINE int64_t scale_offset_block(const ScaleOffset& args, const Block& block,
                                           const StripConstants& strip) {
  const HalfStrip<false> first(strip, 0), second(strip, 1);
  const __m128i shift = _mm_cvtsi32_si128(args.shift - 16);
  const auto most = static_cast<int16_t>(mantissa_limit(args.out.bits));
  const auto least = static_cast<int16_t>(-most);
  const Vector ones = all_words(1), limit = all_words(most), lowest = all_words(least);
  // Rounding keeps the sign, so ReLU can follow it.
  const Vector floor = all_words(args.relu ? int16_t{0} : INT16_MIN);
  const int coarse = kCoarse ? args.negative_shift : 0;
  const __m128i coarse_shift = _mm_cvtsi32_si128(coarse);
  const Vector coarse_half = all_words(static_cast<int16_t>((1 << coarse) / 2));
  Vector low = zeros(), high = low;
  int64_t clipped = 0;
  const int8_t* from = args.in.as<int8_t>() + block.at;
  int8_t* to = args.out.as<int8_t>() + block.at;
  for (int64_t row = 0; row < block.rows; ++row, from += block.step, to += block.step) {
    prefetch_next(from, block);
    prefetch_next(to, block);
    const Vector in = load_words(from);
    const Vector lower = shift_right(first(lower_pairs(in, ones)).high, shift);
    const Vector upper = shift_right(second(upper_pairs(in, ones)).high, shift);
    Vector words = max_words(pack(lower, upper), floor);
    if constexpr (kCoarse) {
      // As far as words reach, the most that they are shifted by leaves all that is not clipped.
      const Vector below =
          shift_right_words(add_words(min_words(words, zeros()), coarse_half), coarse_shift);
      words = add_words(max_words(words, zeros()), max_words(below, lowest));
    }
    if constexpr (kClips) {
      const Vector narrow = max_words(min_words(words, limit), lowest);
      clipped += count_different_words(words, narrow);
      words = narrow;
    } else {
      low = min_words(low, words);
      high = max_words(high, words);
    }
    store_narrow(to, words);
  }
  return kClips ? clipped : static_cast<int64_t>(!all_words_within(low, high, least, most));
}

// Whether the strips take it; else the plain loops do.
inline bool fits(const ScaleOffset& args) noexcept {
  if (args.out.data == nullptr || !can_shift(args.shift)) return false;
  if (args.in.bits > 8 || args.out.bits > 8) return false;
  for (int64_t c = 0; c < args.channels; ++c) {
    const int64_t multiplier = args.multiplier[c], offset = args.offset[c];
    if (!fits(7, multiplier, 0, 0, offset, args.shift)) return false;
    if (rounding(multiplier, offset, args.shift) == 0) return false;
  }
  return true;
}

template <bool kCoarse>
WideStatistics scale_offset_in_strips_of(const ScaleOffset& args, int64_t begin_row,
                                         int64_t end_row) noexcept {
  constexpr int64_t kMostRows = 64;
  const LongRows rows(args.channels, begin_row, end_row);
  int64_t saturated = 0;
  bool clips = false;  // if a block does, the next is likely to
  for_each_block_with_constants(
      rows, args.channels, block_rows(rows, 2, kMostRows),
      [&](int64_t channel, StripConstants& strip) { set_constants(args, channel, strip); },
      [&](const Block& block, const StripConstants& strip) {
        clips = clips || scale_offset_block<false, kCoarse>(args, block, strip) != 0;
        if (clips) saturated += scale_offset_block<true, kCoarse>(args, block, strip);
      });
  return {0, saturated + loops::scale_offset(args, rows.rest_row, end_row).saturated};
}

inline WideStatistics scale_offset_in_strips(const ScaleOffset& args, int64_t begin_row,
                                             int64_t end_row) noexcept {
  if (!fits(args)) return loops::scale_offset(args, begin_row, end_row);
  return args.negative_shift >= 0 ? scale_offset_in_strips_of<true>(args, begin_row, end_row)
                                  : scale_offset_in_strips_of<false>(args, begin_row, end_row);
}
