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

// Upper halves, with the half added, of results that neither saturate nor exceed a magnitude that
// is known to occur. Where all are within, a block's statistics follow without looking closer.
class KnownRange {
 public:
  KnownRange(int shift, int bits)
      : half_(half_of(shift) >> 16),
        lowest_(-(mantissa_limit(bits) << (shift - 16))),
        highest_(((mantissa_limit(bits) + 1) << (shift - 16)) - 1) {}

  void set_maximum(uint64_t maximum) {
    const auto size = static_cast<int64_t>(maximum);
    low_ = static_cast<int32_t>(std::max({lowest_, half_ - (size >> 16), int64_t{INT32_MIN}}));
    high_ = static_cast<int32_t>(
        std::min({highest_, half_ - 1 + ((size + 1) >> 16), int64_t{INT32_MAX}}));
  }
  bool contains(__m256i low, __m256i high) const {
    const __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(low_), low),
                                            _mm256_cmpgt_epi32(high, _mm256_set1_epi32(high_)));
    return _mm256_testz_si256(outside, outside) != 0;
  }

 private:
  int64_t half_, lowest_, highest_;
  int32_t low_ = 0, high_ = 0;
};

// Returns whether all was rounded to nearest even and lies in the range.
template <typename T, typename Out, bool kMasked>
bool gradient_block(const BatchNormGradient& args, const Block& block, const StripConstants& strip,
                    const KnownRange& range) {
  const HalfStrip<true> first(strip, 0), second(strip, 1);
  Rounding round(args.shift);
  __m256i low = _mm256_set1_epi32(INT32_MAX), high = _mm256_set1_epi32(INT32_MIN);
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
    low = _mm256_min_epi32(low, _mm256_min_epi32(wide0.high, wide1.high));
    high = _mm256_max_epi32(high, _mm256_max_epi32(wide0.high, wide1.high));
    store_narrow(grad_in + at, _mm256_packs_epi32(round(wide0), round(wide1)));
  }
  return round.is_exact() && range.contains(low, high);
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
  range.set_maximum(0);
  for_each_block_with_constants(
      rows, args.channels, kRows,
      [&](int64_t channel, StripConstants& strip) { set_constants(args, channel, strip); },
      [&](const Block& block, const StripConstants& strip) {
        if (gradient_block<T, Out, kMasked>(args, block, strip, range)) return;
        total += gradient_block_exactly<T, Out, kMasked>(args, block);
        range.set_maximum(total.maximum);
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
