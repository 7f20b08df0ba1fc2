// Scale and offset for AVX2.
#if defined(__x86_64__)
#include <bit>

#include "kernels/batch_norm/avx2_fixed_point.h"
#include "kernels/batch_norm/avx2_kernels.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::batch_norm_avx2 {
namespace {
namespace loops {
#include "kernels/batch_norm/batch_norm_loops.h"
}  // namespace loops

constexpr int64_t kRows = 64;

// What to add to in * multiplier + offset so that shifting it to the right rounds to nearest even
// for all values of `in`: a half, or one less if one value gives a tie that goes down. 0 if several
// values may give ties.
int64_t rounding(int64_t multiplier, int64_t offset, int shift) {
  const int64_t half = half_of(shift);
  // In a tie in * multiplier is this, modulo 2^shift.
  const auto rest = static_cast<uint64_t>(-(offset + half)) & ((uint64_t{1} << shift) - 1);
  const int zeros = std::min(shift, std::countr_zero(static_cast<uint64_t>(multiplier)));
  if ((rest & ((uint64_t{1} << zeros) - 1)) != 0) return half;
  if (zeros > shift - 8) return 0;
  // 1 / odd modulo 2^3, and by Newton's iteration modulo 2^6 and 2^12.
  const auto odd = static_cast<uint64_t>(multiplier >> zeros);
  uint64_t inverse = odd;
  inverse *= 2 - odd * inverse;
  inverse *= 2 - odd * inverse;
  // The only solution modulo 2^8, which may be none modulo 2^shift.
  const int64_t in = static_cast<int8_t>((rest >> zeros) * inverse & 0xff);
  const int64_t wide = in * multiplier + offset + half;
  const bool tie = (wide & (2 * half - 1)) == 0;
  return tie && (wide >> shift) % 2 != 0 ? half - 1 : half;
}

// A value is paired with a one, which brings the lower half of the offset.
void set_constants(const ScaleOffset& args, int64_t channel, StripConstants& strip) {
  for_each_lane(channel, args.channels, [&](int64_t lane, int64_t c) {
    const int64_t multiplier = args.multiplier[c];
    const int64_t offset = args.offset[c] + rounding(multiplier, args.offset[c], args.shift);
    strip.set(lane, multiplier, low_half(offset), offset - low_half(offset));
  });
}

// Returns how many elements saturated.
int64_t scale_offset_block(const ScaleOffset& args, const Block& block,
                           const StripConstants& strip) {
  const HalfStrip<false> first(strip, 0), second(strip, 1);
  const __m128i shift = _mm_cvtsi32_si128(args.shift - 16);
  const auto most = static_cast<int16_t>(mantissa_limit(args.out.bits));
  const __m256i ones = _mm256_set1_epi16(1), limit = _mm256_set1_epi16(most);
  // Rounding keeps the sign, so ReLU can follow it.
  const __m256i floor = _mm256_set1_epi16(args.relu ? 0 : INT16_MIN);
  const __m256i least = _mm256_set1_epi16(static_cast<int16_t>(-most));
  __m256i kept = _mm256_setzero_si256();
  const int8_t* from = args.in.as<int8_t>() + block.at;
  int8_t* to = args.out.as<int8_t>() + block.at;
  for (int64_t row = 0; row < block.rows; ++row, from += block.step, to += block.step) {
    const __m256i in = load_words(from);
    const __m256i rounded0 = _mm256_sra_epi32(first(_mm256_unpacklo_epi16(in, ones)).high, shift);
    const __m256i rounded1 = _mm256_sra_epi32(second(_mm256_unpackhi_epi16(in, ones)).high, shift);
    const __m256i words = _mm256_max_epi16(_mm256_packs_epi32(rounded0, rounded1), floor);
    const __m256i narrow = _mm256_max_epi16(_mm256_min_epi16(words, limit), least);
    kept = _mm256_sub_epi16(kept, _mm256_cmpeq_epi16(words, narrow));
    store_narrow(to, narrow);
  }
  return kLanes * block.rows - sum_words(kept);
}

}  // namespace

bool fits(const ScaleOffset& args) noexcept {
  if (args.out.data == nullptr || !can_shift(args.shift)) return false;
  if (args.in.bits > 8 || args.out.bits > 8) return false;
  for (int64_t c = 0; c < args.channels; ++c) {
    const int64_t multiplier = args.multiplier[c], offset = args.offset[c];
    if (!fits(7, multiplier, 0, 0, offset, args.shift)) return false;
    if (rounding(multiplier, offset, args.shift) == 0) return false;
  }
  return true;
}

WideStatistics scale_offset(const ScaleOffset& args, int64_t begin_row, int64_t end_row) noexcept {
  if (!fits(args)) return loops::scale_offset(args, begin_row, end_row);
  const LongRows rows(args.channels, begin_row, end_row);
  int64_t saturated = 0;
  for_each_block_with_constants(
      rows, args.channels, kRows,
      [&](int64_t channel, StripConstants& strip) { set_constants(args, channel, strip); },
      [&](const Block& block, const StripConstants& strip) {
        saturated += scale_offset_block(args, block, strip);
      });
  return {0, saturated + loops::scale_offset(args, rows.rest_row, end_row).saturated};
}

}  // namespace mantissa::kernels::batch_norm_avx2
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
