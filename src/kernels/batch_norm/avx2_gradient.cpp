// The gradient for AVX2.
#if defined(__x86_64__)
#include "kernels/batch_norm/avx2_fixed_point.h"
#include "kernels/batch_norm/avx2_kernels.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::batch_norm_avx2 {
namespace {
namespace loops {
#include "kernels/batch_norm/batch_norm_loops.h"
}  // namespace loops

constexpr int64_t kRows = 16;

void set_constants(const BatchNormGradient& args, int64_t channel, StripConstants& strip) {
  for_each_lane(channel, args.channels, [&](int64_t lane, int64_t c) {
    strip.set(lane, args.grad_multiplier[c], args.in_multiplier[c],
              args.offset[c] + half_of(args.shift));
  });
}

// Rounds results to which the half was added. Ties are rare: they are rounded upwards, and noticed.
class Rounding {
 public:
  explicit Rounding(int shift)
      : shift_(_mm_cvtsi32_si128(shift - 16)), rest_(_mm_cvtsi32_si128(48 - shift)) {}

  // Rounds eight results.
  MANTISSA_INLINE __m256i operator()(Wide wide) {
    // The bits that are shifted out: of `high` here, or only its uppermost 16, above those of
    // `low`. They are zero in a tie, and hardly ever else.
    const __m256i rest = _mm256_blend_epi16(_mm256_sll_epi32(wide.high, rest_), wide.low, 0x55);
    least_rest_ = _mm256_min_epu32(least_rest_, rest);
    return _mm256_sra_epi32(wide.high, shift_);
  }
  // Whether all that was rounded was rounded to nearest even.
  bool is_exact() const {
    const __m256i zero = _mm256_cmpeq_epi32(least_rest_, _mm256_setzero_si256());
    return _mm256_testz_si256(zero, zero) != 0;
  }

 private:
  __m128i shift_, rest_;
  __m256i least_rest_ = _mm256_set1_epi32(-1);
};

// The least and the greatest of lanes of int32.
class Extremes {
 public:
  Extremes() : low_(_mm256_set1_epi32(INT32_MAX)), high_(_mm256_set1_epi32(INT32_MIN)) {}

  MANTISSA_INLINE void add(__m256i a, __m256i b) {
    low_ = _mm256_min_epi32(low_, _mm256_min_epi32(a, b));
    high_ = _mm256_max_epi32(high_, _mm256_max_epi32(a, b));
  }
  bool are_within(int32_t least, int32_t greatest) const {
    const __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(least), low_),
                                            _mm256_cmpgt_epi32(high_, _mm256_set1_epi32(greatest)));
    return _mm256_testz_si256(outside, outside) != 0;
  }

 private:
  __m256i low_, high_;
};

// Upper halves, with the half added, of results that do not exceed a magnitude that is known to
// occur, and of those that do not saturate either. Where all are within, a block's maximum follows
// without looking closer, and that nothing saturated.
class KnownRange {
 public:
  KnownRange(int shift, int bits)
      : half_(half_of(shift) >> 16),
        lowest_(-(mantissa_limit(bits) << (shift - 16))),
        highest_(((mantissa_limit(bits) + 1) << (shift - 16)) - 1) {}

  void set_maximum(uint64_t maximum) {
    const auto size = static_cast<int64_t>(maximum);
    low_ = std::max(half_ - (size >> 16), int64_t{INT32_MIN});
    high_ = std::min(half_ - 1 + ((size + 1) >> 16), int64_t{INT32_MAX});
  }
  bool contains(const Extremes& found) const { return is_within(found, low_, high_); }
  bool contains_unsaturated(const Extremes& found) const {
    return is_within(found, std::max(lowest_, low_), std::min(highest_, high_));
  }

 private:
  static bool is_within(const Extremes& found, int64_t low, int64_t high) {
    return found.are_within(static_cast<int32_t>(low), static_cast<int32_t>(high));
  }
  int64_t half_, lowest_, highest_;
  int64_t low_ = 0, high_ = 0;
};

// What is known of a block's results.
struct BlockResults {
  Extremes upper_halves;
  bool rounded_exactly = false;  // all of them, to nearest even
  int64_t saturated = 0;         // where saturation is looked for
};

// Writes a block; unless it saturates, results that do not fit are written wrongly.
template <typename T, typename Out, bool kMasked, bool kSaturates>
void gradient_block(const BatchNormGradient& args, const Block& block, const StripConstants& strip,
                    BlockResults& results) {
  const HalfStrip<true> first(strip, 0), second(strip, 1);
  Rounding round(args.shift);
  Extremes upper_halves;  // in registers
  const __m256i limit = _mm256_set1_epi32(static_cast<int>(mantissa_limit(args.grad_in.bits)));
  const __m256i least = _mm256_sub_epi32(_mm256_setzero_si256(), limit);
  __m256i kept = _mm256_setzero_si256();
  const auto clip = [&](__m256i rounded) {
    const __m256i narrow = _mm256_max_epi32(_mm256_min_epi32(rounded, limit), least);
    kept = _mm256_sub_epi32(kept, _mm256_cmpeq_epi32(rounded, narrow));
    return narrow;
  };
  // Copies, which no store can change.
  const T* grad_out = args.grad_out.as<T>();
  Out* grad_in = args.grad_in.as<Out>();
  const auto *inputs = args.in.as<int8_t>(), *outputs = args.output.as<int8_t>();
  int64_t at = block.at;
  for (int64_t row = 0; row < block.rows; ++row, at += block.step) {
    const __m256i grad = _mm256_and_si256(load_words(grad_out + at), passes<kMasked>(outputs, at));
    const __m256i in = load_words(inputs + at);
    const Wide wide0 = first(_mm256_unpacklo_epi16(grad, in));
    const Wide wide1 = second(_mm256_unpackhi_epi16(grad, in));
    upper_halves.add(wide0.high, wide1.high);
    __m256i rounded0 = round(wide0), rounded1 = round(wide1);
    if constexpr (kSaturates) rounded0 = clip(rounded0), rounded1 = clip(rounded1);
    store_narrow(grad_in + at, _mm256_packs_epi32(rounded0, rounded1));
  }
  results.upper_halves = upper_halves;
  results.rounded_exactly = round.is_exact();
  if constexpr (kSaturates) results.saturated = kLanes * block.rows - sum_lanes(kept);
}

// As gradient_block, for all numbers.
template <typename T, typename Out, bool kMasked>
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
          !kMasked || args.output.as<int8_t>()[at] > 0 ? args.grad_out.as<T>()[at] : 0;
      const int64_t wide = grad * args.grad_multiplier[c] +
                           int64_t{args.in.as<int8_t>()[at]} * args.in_multiplier[c] +
                           args.offset[c];
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

template <typename T, typename Out, bool kMasked>
WideStatistics gradient_rows(const BatchNormGradient& args, const LongRows& rows) {
  WideStatistics total;
  KnownRange range(args.shift, args.grad_in.bits);
  range.set_maximum(args.seen);
  for_each_block_with_constants(
      rows, args.channels, kRows,
      [&](int64_t channel, StripConstants& strip) { set_constants(args, channel, strip); },
      [&](const Block& block, const StripConstants& strip) {
        BlockResults found;
        gradient_block<T, Out, kMasked, false>(args, block, strip, found);
        if (found.rounded_exactly && range.contains_unsaturated(found.upper_halves)) return;
        if (found.rounded_exactly && range.contains(found.upper_halves)) {
          gradient_block<T, Out, kMasked, true>(args, block, strip, found);
          total.saturated += found.saturated;
          return;
        }
        total += gradient_block_exactly<T, Out, kMasked>(args, block);
        range.set_maximum(std::max(args.seen, total.maximum));
      });
  return total;
}

}  // namespace

bool fits(const BatchNormGradient& args) noexcept {
  if (args.grad_in.data == nullptr || args.grad_in.bits > 16) return false;
  if (!can_shift(args.shift) || !are_bytes(args)) return false;
  const int grad_bits = static_cast<int>(8 * gradient_bytes(args.grad_out.bits)) - 1;
  bool all = true;
  for (int64_t c = 0; c < args.channels; ++c) {
    all &= fits(grad_bits, args.grad_multiplier[c], 7, args.in_multiplier[c], args.offset[c],
                args.shift);
  }
  return all;
}

WideStatistics gradient(const BatchNormGradient& args, int64_t begin_row,
                        int64_t end_row) noexcept {
  if (!fits(args)) return loops::gradient(args, begin_row, end_row);
  const LongRows rows(args.channels, begin_row, end_row);
  WideStatistics total = loops::gradient(args, rows.rest_row, end_row);
  with_gradient_type(args.grad_out.bits, [&](auto from) {
    with_gradient_type(args.grad_in.bits, [&](auto to) {
      using T = decltype(from);
      using Out = decltype(to);
      total += args.output.data != nullptr ? gradient_rows<T, Out, true>(args, rows)
                                           : gradient_rows<T, Out, false>(args, rows);
    });
  });
  return total;
}

}  // namespace mantissa::kernels::batch_norm_avx2
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
