// The gradient of the input, in strips.
//
// Include inside an anonymous namespace of mantissa::kernels, after fixed_point_strips.h and, in a
// namespace `loops`, batch_norm_loops.h.

inline void set_constants(const BatchNormGradient& args, int64_t channel, StripConstants& strip) {
  for_each_lane(channel, args.channels, [&](int64_t lane, int64_t c) {
    strip.set(lane, args.grad_multiplier[c], args.in_multiplier[c],
              args.offset[c] + half_of(args.shift));
  });
}

// Results of a batch norm that need no closer look: no larger than a maximum that
// is known to occur, and not saturated.
class KnownRange {
 public:
  KnownRange(int shift, int bits) : shift_(shift), limit_(mantissa_limit(bits)) {}

  void set_maximum(uint64_t maximum) {
    const int64_t half = half_of(shift_), size = static_cast<int64_t>(maximum);
    least_ = half - size;
    most_ = half + size;
  }
  // Words within are neither rounded half up nor clipped to their type.
  int16_t least_word() const { return static_cast<int16_t>(std::max(-limit_, least(shift_))); }
  int16_t most_word() const {
    constexpr int64_t kUnclipped = INT16_MAX - 1;
    return static_cast<int16_t>(std::min({limit_, kUnclipped, most(shift_)}));
  }
  // Upper halves within, the half added, do not exceed the maximum.
  int32_t least_upper_half() const {
    return static_cast<int32_t>(std::max<int64_t>(INT32_MIN, least(16)));
  }
  int32_t most_upper_half() const {
    return static_cast<int32_t>(std::min<int64_t>(INT32_MAX, most(16)));
  }

 private:
  // Bounds of results without their lowest bits.
  int64_t least(int bits) const { return ((least_ - 1) >> bits) + 1; }
  int64_t most(int bits) const { return ((most_ + 1) >> bits) - 1; }

  int shift_;
  int64_t limit_;
  int64_t least_ = 0, most_ = 0;  // with the half added
};

// Whether an output stops gradients, and whether that is the input, whose negatives are coarse.
enum class Mask { kNone, kOutput, kCoarseInput };

// The elements of a block, row by row: write(at, lower and upper half of the results).
template <typename T, Mask kMask, typename Write>
MANTISSA_INLINE void for_each_gradient(const BatchNormGradient& args, const Block& block,
                                       const StripConstants& strip, Write&& write) {
  constexpr bool kMasked = kMask != Mask::kNone;
  const HalfStrip<true> first(strip, 0), second(strip, 1);
  const __m128i coarse_shift = _mm_cvtsi32_si128(args.negative_shift);
  // Copies, which no store can change.
  const T* grads = args.grad_out.as<T>();
  const auto *inputs = args.in.as<int8_t>(), *outputs = args.output.as<int8_t>();
  int64_t at = block.at;
  for (int64_t row = 0; row < block.rows; ++row, at += block.step) {
    prefetch_next(grads + at, block);
    prefetch_next(inputs + at, block);
    if constexpr (kMasked) prefetch_next(outputs + at, block);
    const Vector grad = load_passing<kMasked>(grads, outputs, at);
    Vector in = load_words(inputs + at);
    if constexpr (kMask == Mask::kCoarseInput) {
      const Vector below = min_words(in, zeros());
      in = add_words(subtract_words(in, below), shift_left_words(below, coarse_shift));
    }
    write(at, first(lower_pairs(grad, in)), second(upper_pairs(grad, in)));
  }
}

// Writes a block. False if its results may not be within the range, or be ties, which are rounded
// upwards here.
template <typename T, typename Out, Mask kMask>
MANTISSA_INLINE bool gradient_block(const BatchNormGradient& args, const Block& block,
                                    const StripConstants& strip, const KnownRange& range) {
  const __m128i shift = _mm_cvtsi32_si128(args.shift - 16);
  Vector low = zeros(), high = low, least_rest = all_dwords(-1);
  Out* grad_in = args.grad_in.as<Out>();
  for_each_gradient<T, kMask>(args, block, strip, [&](int64_t at, Wide lower, Wide upper) {
    // In a tie the lower half is zero, and seldom else, unless a channel has no multipliers.
    least_rest = min_unsigned_words(least_rest, min_unsigned_words(lower.low, upper.low));
    const Vector words = pack(shift_right(lower.high, shift), shift_right(upper.high, shift));
    low = min_words(low, words);
    high = max_words(high, words);
    prefetch_next(grad_in + at, block);
    store_narrow(grad_in + at, words);
  });
  return !has_zero_lower_word(least_rest) &&
         all_words_within(low, high, range.least_word(), range.most_word());
}

// Writes a block and returns how many results were clipped; -1 if one is a tie, or may exceed the
// known maximum.
template <typename T, typename Out, Mask kMask>
MANTISSA_INLINE int64_t gradient_block_closely(const BatchNormGradient& args, const Block& block,
                                               const StripConstants& strip,
                                               const KnownRange& range) {
  const __m128i shift = _mm_cvtsi32_si128(args.shift - 16);
  const __m128i rest_shift = _mm_cvtsi32_si128(48 - args.shift);
  const auto most = static_cast<int32_t>(mantissa_limit(args.grad_in.bits));
  const Vector limit = all_dwords(most), lowest = all_dwords(-most);
  Vector low = all_dwords(INT32_MAX), high = all_dwords(INT32_MIN), least_rest = all_dwords(-1);
  int64_t clipped = 0;
  const auto narrow = [&](const Wide& wide) {
    // The bits that are shifted out: of `high` here, or only its uppermost 16, above the bits of
    // `low`. They are zero in a tie, and hardly ever else.
    const Vector rest = blend_words(shift_left(wide.high, rest_shift), wide.low);
    least_rest = min_unsigned_dwords(least_rest, rest);
    low = min_dwords(low, wide.high);
    high = max_dwords(high, wide.high);
    const Vector rounded = shift_right(wide.high, shift);
    const Vector within = max_dwords(min_dwords(rounded, limit), lowest);
    clipped += count_different_dwords(rounded, within);
    return within;
  };
  Out* grad_in = args.grad_in.as<Out>();
  for_each_gradient<T, kMask>(args, block, strip, [&](int64_t at, Wide lower, Wide upper) {
    store_narrow(grad_in + at, pack(narrow(lower), narrow(upper)));
  });
  const bool is_known =
      all_dwords_within(low, high, range.least_upper_half(), range.most_upper_half());
  return is_known && !has_zero_dword(least_rest) ? clipped : -1;
}

// The same for all numbers.
template <typename T, typename Out, Mask kMask>
__attribute__((noinline)) WideStatistics gradient_block_exactly(const BatchNormGradient& args,
                                                                const Block& block) {
  const loops::RoundEven64 round(args.shift);
  const int64_t limit = mantissa_limit(args.grad_in.bits);
  int64_t low = 0, high = 0, saturated = 0;
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t first = block.at + row * block.step;
    for_each_lane(block.channel, args.channels, [&](int64_t lane, int64_t c) {
      const int64_t at = first + lane;
      const int64_t grad =
          kMask == Mask::kNone || args.output.as<int8_t>()[at] > 0 ? args.grad_out.as<T>()[at] : 0;
      int64_t in = args.in.as<int8_t>()[at];
      if constexpr (kMask == Mask::kCoarseInput) in = loops::in_one_unit(in, args.negative_shift);
      const int64_t wide =
          grad * args.grad_multiplier[c] + in * args.in_multiplier[c] + args.offset[c];
      const int64_t rounded = round(wide);
      const int64_t narrow = saturate(rounded, limit);
      low = std::min(low, wide);
      high = std::max(high, wide);
      saturated += narrow != rounded;
      args.grad_in.as<Out>()[at] = static_cast<Out>(narrow);
    });
  }
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

template <typename T, typename Out, Mask kMask>
WideStatistics gradient_rows(const BatchNormGradient& args, const LongRows& rows) {
  constexpr int64_t kMostRows = 16,
                    kElementBytes = sizeof(T) + sizeof(Out) + 1 + (kMask == Mask::kOutput);
  WideStatistics total;
  KnownRange range(args.shift, args.grad_in.bits);
  range.set_maximum(args.seen);
  for_each_block_with_constants(
      rows, args.channels, block_rows(rows, kElementBytes, kMostRows),
      [&](int64_t channel, StripConstants& strip) { set_constants(args, channel, strip); },
      [&](const Block& block, const StripConstants& strip) {
        if (gradient_block<T, Out, kMask>(args, block, strip, range)) return;
        const int64_t clipped = gradient_block_closely<T, Out, kMask>(args, block, strip, range);
        if (clipped >= 0) {
          total.saturated += clipped;
          return;
        }
        total += gradient_block_exactly<T, Out, kMask>(args, block);
        range.set_maximum(std::max(args.seen, total.maximum));
      });
  return total;
}

// Whether the strips take it; else the plain loops do.
inline bool fits(const BatchNormGradient& args) noexcept {
  if (args.grad_in.data == nullptr || args.grad_in.bits > 16) return false;
  if (!can_shift(args.shift) || !are_narrow(args)) return false;
  const int grad_bits = static_cast<int>(8 * gradient_bytes(args.grad_out.bits)) - 1;
  bool all = true;
  for (int64_t c = 0; c < args.channels; ++c) {
    all &= fits(grad_bits, args.grad_multiplier[c], 7 + args.negative_shift, args.in_multiplier[c],
                args.offset[c], args.shift);
  }
  return all;
}

inline WideStatistics gradient_in_strips(const BatchNormGradient& args, int64_t begin_row,
                                         int64_t end_row) noexcept {
  if (!fits(args)) return loops::gradient(args, begin_row, end_row);
  const LongRows rows(args.channels, begin_row, end_row);
  WideStatistics total = loops::gradient(args, rows.rest_row, end_row);
  with_gradient_type(args.grad_out.bits, [&](auto from) {
    with_gradient_type(args.grad_in.bits, [&](auto to) {
      using T = decltype(from);
      using Out = decltype(to);
      total += args.output.data == nullptr ? gradient_rows<T, Out, Mask::kNone>(args, rows)
               : args.negative_shift == 0  ? gradient_rows<T, Out, Mask::kOutput>(args, rows)
                                           : gradient_rows<T, Out, Mask::kCoarseInput>(args, rows);
    });
  });
  return total;
}
