// Plain loops, exact sums. Slow on purpose, simple on purpose.
#include "reference/layers/convolution.h"

#include "reference/elements/elements.h"

// Output pixel i of all images.
typedef struct Pixel {
  int64_t n, y, x;
} Pixel;

static Pixel pixel_of(const RefConvolutionShape* s, int64_t i) {
  const int64_t row = i / s->out_width;
  const Pixel pixel = {row / s->out_height, row % s->out_height, i % s->out_width};
  return pixel;
}

static int64_t output_pixels(const RefConvolutionShape* s) {
  return s->batch * s->out_height * s->out_width;
}

// Where tap (ky, kx) of an output pixel meets the input: the offset of the pixel's channels, or -1
// if it is padding.
static int64_t input_at(const RefConvolutionShape* s, Pixel p, int64_t ky, int64_t kx) {
  const int64_t y = p.y * s->stride_height + ky * s->dilation - s->padding_height;
  const int64_t x = p.x * s->stride_width + kx * s->dilation - s->padding_width;
  const bool inside = y >= 0 && y < s->in_height && x >= 0 && x < s->in_width;
  return inside ? ((p.n * s->in_height + y) * s->in_width + x) * s->in_channels : -1;
}

static int64_t weights_at(const RefConvolutionShape* s, int64_t o, int64_t ky, int64_t kx) {
  return ((o * s->kernel_height + ky) * s->kernel_width + kx) * (s->in_channels / s->groups);
}

// The first input channel that output channel o reads.
static int64_t first_channel(const RefConvolutionShape* s, int64_t o) {
  return s->groups == 1 ? 0 : o / (s->out_channels / s->groups) * (s->in_channels / s->groups);
}

// One sum; products of 8 bits are added up in 32.
static int32_t forward_sum(const RefConvolutionShape* s, const RefConvolutionForward* args, Pixel p,
                           int64_t o) {
  const int64_t channels = s->in_channels / s->groups, first = first_channel(s, o);
  int32_t sum = args->bias != NULL ? args->bias[o] : 0;
  for (int64_t ky = 0; ky < s->kernel_height; ++ky) {
    for (int64_t kx = 0; kx < s->kernel_width; ++kx) {
      const int64_t at = input_at(s, p, ky, kx);
      if (at < 0) continue;
      const int8_t* in = args->input + at + first;
      const int8_t* weights = args->weights + weights_at(s, o, ky, kx);
      for (int64_t c = 0; c < channels; ++c) sum += in[c] * weights[c];
    }
  }
  return sum;
}

RefStatistics ref_convolution_forward(const RefConvolutionShape* s,
                                      const RefConvolutionForward* args) {
  const int64_t limit = ref_mantissa_limit(args->bits);
  RefStatistics found = {0, 0};
  for (int64_t i = 0; i < output_pixels(s); ++i) {
    const Pixel p = pixel_of(s, i);
    for (int64_t o = 0; o < s->out_channels; ++o) {
      const int32_t sum = forward_sum(s, args, p, o);
      const int64_t rounded = args->sums != NULL ? 0 : ref_shift_right_rne(sum, args->shift);
      const int64_t narrow = ref_saturate(rounded, limit), at = i * s->out_channels + o;
      ref_include(&found, sum, rounded, narrow);
      if (args->sums != NULL) {
        args->sums[at] = sum;
      } else {
        args->output[at] = (int8_t)narrow;
        ref_count_wide(args->counts, sum);
      }
    }
  }
  return found;
}

// Adds the gradients that an output pixel sends to the input: products of 16 and 8 bits fit 32, and
// sums of KH * KW * O / G <= 65,000 of them 40.
REF_LOOP void add_grad_input(int bytes, const RefConvolutionShape* s,
                             const RefConvolutionGradInput* args, int64_t i) {
  const int64_t channels = s->in_channels / s->groups;
  const Pixel p = pixel_of(s, i);
  for (int64_t ky = 0; ky < s->kernel_height; ++ky) {
    for (int64_t kx = 0; kx < s->kernel_width; ++kx) {
      const int64_t at = input_at(s, p, ky, kx);
      if (at < 0) continue;
      for (int64_t o = 0; o < s->out_channels; ++o) {
        const int32_t grad =
            (int32_t)ref_load(args->grad_output.data, bytes, i * s->out_channels + o);
        const int8_t* restrict weights = args->weights + weights_at(s, o, ky, kx);
        int64_t* restrict sums = args->scratch + at + first_channel(s, o);
        for (int64_t c = 0; c < channels; ++c) sums[c] += grad * weights[c];
      }
    }
  }
}

REF_LOOP RefStatistics narrow_sums(int bytes, const int64_t* restrict sums, int64_t count,
                                   int shift, RefSpan out, RefWideCounts* counts) {
  const int64_t limit = ref_mantissa_limit(out.bits);
  RefStatistics found = {0, 0};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rounded = ref_shift_right_rne(sums[i], shift);
    const int64_t narrow = ref_saturate(rounded, limit);
    ref_include(&found, sums[i], rounded, narrow);
    ref_store(out.data, bytes, i, narrow);
  }
  if (counts == NULL || !ref_wants(counts, &found)) return found;
  for (int64_t i = 0; i < count; ++i) ref_count_wide(counts, sums[i]);
  return found;
}

// Products of two mantissas of 8 bits, and at most 65,000 of them, fit 32 bits.
static RefStatistics keep_sums(const int64_t* from, int64_t count, int32_t* sums) {
  RefStatistics found = {0, 0};
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = (int32_t)from[i];
    ref_include(&found, from[i], 0, 0);
  }
  return found;
}

static void clear(int64_t* sums, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] = 0;
}

RefStatistics ref_convolution_grad_input(const RefConvolutionShape* s,
                                         const RefConvolutionGradInput* args) {
  const int64_t count = s->batch * s->in_height * s->in_width * s->in_channels;
  clear(args->scratch, count);
  REF_WITH_SHORT_BYTES(
      args->grad_output.bits, bytes,
      for (int64_t i = 0; i < output_pixels(s); ++i) { add_grad_input(bytes, s, args, i); });
  if (args->sums != NULL) return keep_sums(args->scratch, count, args->sums);
  REF_WITH_SHORT_BYTES(
      args->grad_input.bits, bytes,
      return narrow_sums(bytes, args->scratch, count, args->shift, args->grad_input, args->counts));
}

// The products of an output pixel's gradients and of its inputs; those of 32 bits need 64.
REF_LOOP void add_grad_weights(int bytes, const RefConvolutionShape* s,
                               const RefConvolutionGradWeights* args, int64_t i) {
  const int64_t channels = s->in_channels / s->groups;
  const Pixel p = pixel_of(s, i);
  for (int64_t ky = 0; ky < s->kernel_height; ++ky) {
    for (int64_t kx = 0; kx < s->kernel_width; ++kx) {
      const int64_t at = input_at(s, p, ky, kx);
      if (at < 0) continue;
      for (int64_t o = 0; o < s->out_channels; ++o) {
        const int64_t grad = ref_load(args->grad_output.data, bytes, i * s->out_channels + o);
        const int8_t* restrict in = args->input + at + first_channel(s, o);
        int64_t* restrict sums = args->scratch + weights_at(s, o, ky, kx);
        for (int64_t c = 0; c < channels; ++c) {
          sums[c] += bytes <= 2 ? (int32_t)grad * in[c] : grad * in[c];
        }
      }
    }
  }
}

void ref_convolution_grad_weights(const RefConvolutionShape* s,
                                  const RefConvolutionGradWeights* args) {
  const int64_t count =
      s->out_channels * s->kernel_height * s->kernel_width * (s->in_channels / s->groups);
  const int64_t* sums = args->scratch;
  clear(args->scratch, count);
  REF_WITH_BYTES(
      args->grad_output.bits, bytes,
      for (int64_t i = 0; i < output_pixels(s); ++i) { add_grad_weights(bytes, s, args, i); });
  for (int64_t i = 0; i < count; ++i) {
    if (args->totals.bits == 32) {
      ((int32_t*)args->totals.data)[i] = (int32_t)sums[i];
      continue;
    }
    int64_t* total = (int64_t*)args->totals.data + i;
    *total = ref_accumulate(args->adds ? *total : 0, ref_rescale_rne(sums[i], args->shift));
  }
}
