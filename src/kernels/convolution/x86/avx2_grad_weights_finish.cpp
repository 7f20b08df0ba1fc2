// Rescales the sums of grad_weights into the totals.
#if defined(__x86_64__)
#include "kernels/common/exact_sums.h"
#include "kernels/convolution/x86/avx2.h"
#include "kernels/convolution/x86/avx2_vectors.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::convolution_words::avx2 {
namespace {

// Four at a time: rescale_rne and accumulate if neither can saturate.
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
  // Four totals with four sums added; sets bits of `out` if anything might saturate.
  MANTISSA_INLINE __m256i added(__m256i n, __m256i old, __m256i& out) const {
    const __m256i small = _mm256_set1_epi64x(kWideLimit / 2);
    const __m256i sum = _mm256_add_epi64(old, rescaled(n));
    const __m256i sums_out = _mm256_and_si256(_mm256_add_epi64(n, range), above_range);
    const __m256i totals_out =
        _mm256_or_si256(_mm256_add_epi64(old, small), _mm256_add_epi64(sum, small));
    const __m256i above_small = _mm256_set1_epi64x(~(kWideLimit - 1));
    out =
        _mm256_or_si256(out, _mm256_or_si256(sums_out, _mm256_and_si256(totals_out, above_small)));
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
template <typename Sum>
struct TapSums {
  const void* const* parts;
  int part_count;
  int64_t offset, lanes;

  const Sum* place(int part, int64_t input, int64_t lane) const {
    return static_cast<const Sum*>(parts[part]) + offset + input * lanes + lane;
  }
  int64_t at(int64_t input, int64_t lane) const {
    Sum sum = 0;
    for (int part = 0; part < part_count; ++part) sum += *place(part, input, lane);
    return sum;
  }
  MANTISSA_INLINE __m256i vector_at(int64_t input, int64_t lane) const {
    __m256i sum = load32(place(0, input, lane));
    for (int part = 1; part < part_count; ++part) {
      const __m256i other = load32(place(part, input, lane));
      sum = sizeof(Sum) == 8 ? _mm256_add_epi64(sum, other) : _mm256_add_epi32(sum, other);
    }
    return sum;
  }
};

// Inputs [first, first + count) of channels [lane, lane + channels), `pitch` apart, one by one.
template <typename Sum>
void finish_slowly(const TapSums<Sum>& sums, int64_t first, int64_t count, int64_t lane,
                   int64_t channels, int64_t pitch, const ConvolutionGradWeights& args,
                   int64_t to) {
  for (int64_t o = 0; o < channels; ++o) {
    for (int64_t i = 0; i < count; ++i) {
      add_sum(sums.at(first + i, lane + o), args.shift, args.adds, args.totals, to + o * pitch + i);
    }
  }
}

// Totals of 32 bits, 8 inputs of 8 channels at a time.
void finish_int32(const TapSums<int32_t>& sums, int64_t inputs, int64_t channels, int64_t pitch,
                  const ConvolutionGradWeights& args, int64_t first) {
  auto* const totals = args.totals.as<int32_t>() + first;
  for (int64_t o = 0; o < channels; o += 8) {
    const int64_t count = smaller(8, channels - o);
    const int64_t fast = count == 8 ? inputs / 8 * 8 : 0;
    for (int64_t c = 0; c < fast; c += 8) {
      __m256i r[8];
      MANTISSA_UNROLL for (int i = 0; i < 8; ++i) r[i] = sums.vector_at(c + i, o);
      transpose_dwords(r);
      MANTISSA_UNROLL for (int i = 0; i < 8; ++i) store32(totals + (o + i) * pitch + c, r[i]);
    }
    finish_slowly(sums, fast, inputs - fast, o, count, pitch, args, first + o * pitch + fast);
  }
}

// 4 inputs of 4 channels; false, having done nothing, if any might saturate.
MANTISSA_INLINE bool finish_four(const Rescale& rescale, const TapSums<int64_t>& sums,
                                 int64_t input, int64_t lane, int64_t pitch, int64_t* totals) {
  __m256i r[4];
  MANTISSA_UNROLL for (int i = 0; i < 4; ++i) r[i] = sums.vector_at(input + i, lane);
  transpose_qwords(r);
  __m256i out = _mm256_setzero_si256();
  MANTISSA_UNROLL for (int i = 0; i < 4; ++i) {
    const __m256i old = rescale.adds ? load32(totals + i * pitch) : _mm256_setzero_si256();
    r[i] = rescale.added(r[i], old, out);
  }
  if (_mm256_testz_si256(out, out) == 0) return false;
  MANTISSA_UNROLL for (int i = 0; i < 4; ++i) store32(totals + i * pitch, r[i]);
  return true;
}

void finish_int64(const TapSums<int64_t>& sums, int64_t inputs, int64_t channels, int64_t pitch,
                  const ConvolutionGradWeights& args, int64_t first) {
  const Rescale rescale(args.shift, args.adds);
  for (int64_t o = 0; o < channels; o += 4) {
    const int64_t to = first + o * pitch;
    const int64_t count = smaller(4, channels - o);
    const int64_t fast = rescale.is_fast() && count == 4 ? inputs / 4 * 4 : 0;
    for (int64_t c = 0; c < fast; c += 4) {
      if (finish_four(rescale, sums, c, o, pitch, args.totals.as<int64_t>() + to + c)) continue;
      finish_slowly(sums, c, 4, o, 4, pitch, args, to + c);
    }
    finish_slowly(sums, fast, inputs - fast, o, count, pitch, args, to + fast);
  }
}

}  // namespace

void finish_sums(const GradWeightsPlan& plan, const Slice& slice, int64_t group, int64_t tap,
                 const void* const* parts, int part_count, const ConvolutionGradWeights& args) {
  const ConvolutionShape& s = plan.shape;
  const int64_t taps = s.kernel_height * s.kernel_width;
  const int64_t pitch = taps * s.in_channels;
  const int64_t lanes = slice.group_vectors(group) * kLanes;
  const int64_t channels = slice.group_channels(group);
  const int64_t offset = slice.sums_at(taps, group) + tap * slice.inputs * lanes;
  const int64_t first = (slice.first_output + group * kGroupChannels) * pitch +
                        tap * s.in_channels + slice.first_input;
  if (plan.sum_bits == 32) {
    return finish_int32({parts, part_count, offset, lanes}, slice.inputs, channels, pitch, args,
                        first);
  }
  finish_int64({parts, part_count, offset, lanes}, slice.inputs, channels, pitch, args, first);
}

}  // namespace mantissa::kernels::convolution_words::avx2

MANTISSA_TARGET_END
#endif
