// Rescales the sums of grad_weights into the accumulators.
#if defined(__x86_64__)
#include "kernels/convolution/avx2_grad_weights.h"
#include "kernels/convolution/avx2_vectors.h"
#include "numerics/rounding.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::convolution_avx2 {
namespace {

// Four at a time: rescale_rne and accumulate where neither can saturate.
struct Rescale {
  int shift;
  bool adds;
  __m128i right, left;
  __m256i bias, bias_after, below_half, odd;
  __m256i range, above_range;  // of sums that a left shift keeps within kWideLimit

  Rescale(int bits, bool adds_sums) : shift(bits), adds(adds_sums) {
    // Shifts are logical: a bias keeps sums within 2^61 positive, and its rounded value even.
    constexpr int64_t kBias = int64_t{1} << 62;
    const int left_bits = bits < 0 ? (bits < -60 ? 60 : -bits) : 0;
    const int right_bits = bits > 0 ? bits : 0;
    right = _mm_cvtsi32_si128(right_bits);
    left = _mm_cvtsi32_si128(left_bits);
    bias = _mm256_set1_epi64x(kBias);
    bias_after = _mm256_set1_epi64x(kBias >> right_bits);
    below_half = _mm256_set1_epi64x(bits > 0 ? (int64_t{1} << (bits - 1)) - 1 : 0);
    odd = _mm256_set1_epi64x(bits > 0);
    const int64_t limit = int64_t{1} << (61 - left_bits);
    range = _mm256_set1_epi64x(limit);
    above_range = _mm256_set1_epi64x(~(2 * limit - 1));
  }
  // Shifts for which operator() can do anything.
  bool is_fast() const { return shift >= -60 && shift <= 60; }

  MANTISSA_INLINE __m256i rescaled(__m256i n) const {
    const __m256i biased = _mm256_add_epi64(n, bias);
    const __m256i tie = _mm256_and_si256(_mm256_srl_epi64(biased, right), odd);
    const __m256i up = _mm256_add_epi64(_mm256_add_epi64(biased, below_half), tie);
    return _mm256_sll_epi64(_mm256_sub_epi64(_mm256_srl_epi64(up, right), bias_after), left);
  }
  // Four accumulators with four sums added; sets bits of `out` if anything might saturate.
  MANTISSA_INLINE __m256i added(__m256i n, __m256i old, __m256i& out) const {
    const __m256i small = _mm256_set1_epi64x(kWideLimit / 2);
    const __m256i sum = _mm256_add_epi64(old, rescaled(n));
    const __m256i sums_out = _mm256_and_si256(_mm256_add_epi64(n, range), above_range);
    const __m256i accumulators_out =
        _mm256_or_si256(_mm256_add_epi64(old, small), _mm256_add_epi64(sum, small));
    const __m256i above_small = _mm256_set1_epi64x(~(kWideLimit - 1));
    out = _mm256_or_si256(
        out, _mm256_or_si256(sums_out, _mm256_and_si256(accumulators_out, above_small)));
    return sum;
  }
};

void transpose_qwords(__m256i (&r)[4]) {
  const __m256i a = _mm256_unpacklo_epi64(r[0], r[1]);
  const __m256i b = _mm256_unpackhi_epi64(r[0], r[1]);
  const __m256i c = _mm256_unpacklo_epi64(r[2], r[3]);
  const __m256i d = _mm256_unpackhi_epi64(r[2], r[3]);
  r[0] = _mm256_permute2x128_si256(a, c, 0x20);
  r[1] = _mm256_permute2x128_si256(b, d, 0x20);
  r[2] = _mm256_permute2x128_si256(a, c, 0x31);
  r[3] = _mm256_permute2x128_si256(b, d, 0x31);
}

// Sums of all parts for one tap of a group: [inputs][lanes].
struct TapSums {
  const int64_t* const* parts;
  int part_count;
  int64_t offset, lanes;

  int64_t at(int64_t input, int64_t lane) const {
    int64_t sum = 0;
    for (int part = 0; part < part_count; ++part) {
      sum += parts[part][offset + input * lanes + lane];
    }
    return sum;
  }
  MANTISSA_INLINE __m256i four_at(int64_t input, int64_t lane) const {
    const int64_t place = offset + input * lanes + lane;
    __m256i sum = load32(parts[0] + place);
    for (int part = 1; part < part_count; ++part) {
      sum = _mm256_add_epi64(sum, load32(parts[part] + place));
    }
    return sum;
  }
};

// Inputs [first, first + count) of channels [lane, lane + channels), `pitch` apart, one by one.
void finish_slowly(const TapSums& sums, int64_t first, int64_t count, int64_t lane,
                   int64_t channels, int64_t pitch, const Rescale& rescale, int64_t* accumulator) {
  for (int64_t o = 0; o < channels; ++o) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t& to = accumulator[o * pitch + i];
      to = accumulate(rescale.adds ? to : 0,
                      rescale_rne(sums.at(first + i, lane + o), rescale.shift));
    }
  }
}

// 4 inputs of 4 channels; false, having done nothing, if any might saturate.
MANTISSA_INLINE bool finish_four(const Rescale& rescale, const TapSums& sums, int64_t input,
                                 int64_t lane, int64_t pitch, int64_t* accumulator) {
  __m256i r[4];
  MANTISSA_UNROLL for (int i = 0; i < 4; ++i) r[i] = sums.four_at(input + i, lane);
  transpose_qwords(r);
  __m256i out = _mm256_setzero_si256();
  MANTISSA_UNROLL for (int i = 0; i < 4; ++i) {
    const __m256i old = rescale.adds ? load32(accumulator + i * pitch) : _mm256_setzero_si256();
    r[i] = rescale.added(r[i], old, out);
  }
  if (_mm256_testz_si256(out, out) == 0) return false;
  MANTISSA_UNROLL for (int i = 0; i < 4; ++i) store32(accumulator + i * pitch, r[i]);
  return true;
}

}  // namespace

void finish_sums(const GradWeightsPlan& plan, const Slice& slice, int64_t group, int64_t tap,
                 const int64_t* const* parts, int part_count, const ConvolutionGradWeights& args) {
  const ConvolutionShape& s = plan.shape;
  const int64_t taps = s.kernel_height * s.kernel_width;
  const int64_t pitch = taps * s.in_channels;
  const int64_t lanes = slice.group_vectors(group) * kLanes;
  const int64_t channels = slice.group_channels(group);
  const TapSums sums{parts, part_count, slice.sums_at(taps, group) + tap * slice.inputs * lanes,
                     lanes};
  int64_t* accumulator = args.accumulator + (slice.first_output + group * kGroupChannels) * pitch +
                         tap * s.in_channels + slice.first_input;
  const Rescale rescale(args.shift, args.adds);
  for (int64_t o = 0; o < channels; o += 4) {
    int64_t* to = accumulator + o * pitch;
    const int64_t count = smaller(4, channels - o);
    const int64_t fast = rescale.is_fast() && count == 4 ? slice.inputs / 4 * 4 : 0;
    for (int64_t c = 0; c < fast; c += 4) {
      if (finish_four(rescale, sums, c, o, pitch, to + c)) continue;
      finish_slowly(sums, c, 4, o, 4, pitch, rescale, to + c);
    }
    finish_slowly(sums, fast, slice.inputs - fast, o, count, pitch, rescale, to + fast);
  }
}

}  // namespace mantissa::kernels::convolution_avx2

MANTISSA_TARGET_END
#endif
