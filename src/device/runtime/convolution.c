#include "device/runtime/convolution.h"

#if defined(__ARM_FEATURE_SIMD32)
#include <arm_acle.h>
#endif

#include "device/runtime/windows.h"
#include "reference/elements/elements.h"

// Weight i, of 8, 4 or 2 bits.
REF_LOOP int32_t weight(const void* weights, int bits, int32_t i) {
  if (bits == 8) return ((const int8_t*)weights)[i];
  const int per_byte = 8 / bits;
  const uint32_t byte = ((const uint8_t*)weights)[i / per_byte];
  const uint32_t field = byte >> (i % per_byte * bits) & ((1u << bits) - 1);
  const uint32_t sign = 1u << (bits - 1);
  return (int32_t)(field ^ sign) - (int32_t)sign;
}

// The sum of products of `count` inputs with the weights from `first` on: |sum| < 2^31, as all sums
// of a layer together (reference/layers/convolution.h).
REF_LOOP int32_t dot(const int8_t* restrict in, const void* restrict weights, int bits,
                     int32_t first, int32_t count) {
  int32_t sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += in[i] * weight(weights, bits, first + i);
  return sum;
}

#if defined(__ARM_FEATURE_SIMD32)
// Two products in each of two instructions, on four mantissas of a word: Cortex-M4, M7, M33 and
// above. Sums of products are exact, so that their order is free.
REF_LOOP uint32_t four(const int8_t* from) {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof(word));
  return word;
}

// The word by a byte to the right: a part of the instruction that widens.
REF_LOOP uint32_t next(uint32_t word) { return word >> 8 | word << 24; }

enum { kAtOnce = 4 };
REF_LOOP void add_products(const int8_t* in, const int8_t* weights, int32_t to_second,
                           int32_t* first, int32_t* second) {
  const uint32_t x = four(in), a = four(weights), b = four(weights + to_second);
  const int16x2_t even = __sxtb16((int8x4_t)x), odd = __sxtb16((int8x4_t)next(x));
  *first = __smlad(even, __sxtb16((int8x4_t)a), *first);
  *first = __smlad(odd, __sxtb16((int8x4_t)next(a)), *first);
  *second = __smlad(even, __sxtb16((int8x4_t)b), *second);
  *second = __smlad(odd, __sxtb16((int8x4_t)next(b)), *second);
}
#else
enum { kAtOnce = 1 };
REF_LOOP void add_products(const int8_t* in, const int8_t* weights, int32_t to_second,
                           int32_t* first, int32_t* second) {
  *first += *in * weights[0];
  *second += *in * weights[to_second];
}
#endif

// The products of `count` inputs with two rows of weights, of 8 bits: an input is loaded once.
REF_LOOP void dot_two(const int8_t* restrict in, const int8_t* restrict weights, int32_t to_second,
                      int32_t count, int32_t* sums) {
  int32_t first = sums[0], second = sums[1], i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    add_products(in + i, weights + i, to_second, &first, &second);
  }
  for (; i < count; ++i) {
    first += in[i] * weights[i];
    second += in[i] * weights[i + to_second];
  }
  sums[0] = first;
  sums[1] = second;
}

// The sums of output channels o and o + 1 of a layer of one group: as sum_of, twice.
REF_LOOP void sum_two(const DevConvolution* s, const int8_t* image, const int8_t* weights,
                      const DevWindow* w, int32_t o, int32_t* sums) {
  const int32_t channels = s->in_channels, of_row = s->kernel_width * channels;
  const int32_t of_output = s->kernel_height * of_row;
  const int32_t taps = w->columns.end - w->columns.begin;
  const bool is_run = s->dilation == 1;
  sums[0] = sums[1] = 0;
  for (int32_t ky = w->rows.begin; ky < w->rows.end; ++ky) {
    const int8_t* in_row = image + (w->top + ky * s->dilation) * s->in_width * channels;
    for (int32_t kx = w->columns.begin; kx < w->columns.end; kx += is_run ? taps : 1) {
      dot_two(in_row + (w->left + kx * s->dilation) * channels,
              weights + o * of_output + ky * of_row + kx * channels, of_output,
              is_run ? taps * channels : channels, sums);
    }
  }
}

// The sum of output channel o. Taps of a row that lie beside each other are one run of products.
REF_LOOP int32_t sum_of(const DevConvolution* s, const int8_t* image, const void* weights, int bits,
                        const DevWindow* w, int32_t o) {
  const int32_t channels = s->in_channels / s->groups;
  const int32_t group = s->groups == 1 ? 0 : o / (s->out_channels / s->groups) * channels;
  const bool is_run = s->groups == 1 && s->dilation == 1;
  const int32_t taps = w->columns.end - w->columns.begin;
  int32_t sum = 0;
  for (int32_t ky = w->rows.begin; ky < w->rows.end; ++ky) {
    const int32_t y = w->top + ky * s->dilation;
    const int32_t from = (o * s->kernel_height + ky) * s->kernel_width;
    for (int32_t kx = w->columns.begin; kx < w->columns.end; kx += is_run ? taps : 1) {
      const int8_t* in =
          image + (y * s->in_width + w->left + kx * s->dilation) * s->in_channels + group;
      sum += dot(in, weights, bits, (from + kx) * channels, is_run ? taps * channels : channels);
    }
  }
  return sum;
}

REF_LOOP void convolve(int bits, const DevConvolution* s, const int8_t* input,
                       const DevWeights* weights, int32_t* sums, DevTake take, void* work) {
  int32_t pixel = 0;
  for (int32_t n = 0; n < s->batch; ++n) {
    const int8_t* image = input + n * (s->in_height * s->in_width * s->in_channels);
    for (int32_t y = 0; y < s->out_height; ++y) {
      for (int32_t x = 0; x < s->out_width; ++x, ++pixel) {
        const DevWindow window = dev_window(s, y, x);
        int32_t o = 0;
        for (; bits == 8 && s->groups == 1 && o + 2 <= s->out_channels; o += 2) {
          sum_two(s, image, (const int8_t*)weights->mantissas, &window, o, sums + o);
        }
        for (; o < s->out_channels; ++o) {
          sums[o] = sum_of(s, image, weights->mantissas, bits, &window, o);
        }
        for (o = 0; o < s->out_channels; ++o) {
          const int32_t bias = weights->bias == NULL ? 0 : weights->bias[o];
          sums[o] = sums[o] * (1 << weights->shift) + bias;
        }
        take(work, sums, pixel);
      }
    }
  }
}

// Adds the products of all channels at one tap.
REF_LOOP void add_tap(int bits, const int8_t* restrict in, const void* weights, int32_t first,
                      int32_t step, int32_t channels, int32_t* restrict sums) {
  for (int32_t c = 0; c < channels; ++c) sums[c] += in[c] * weight(weights, bits, first + c * step);
}

REF_LOOP void depthwise(int bits, const DevConvolution* s, const int8_t* input,
                        const DevWeights* weights, int32_t* sums, DevTake take, void* work) {
  const int32_t channels = s->out_channels, taps = s->kernel_height * s->kernel_width;
  int32_t pixel = 0;
  for (int32_t n = 0; n < s->batch; ++n) {
    const int8_t* image = input + n * (s->in_height * s->in_width * channels);
    for (int32_t y = 0; y < s->out_height; ++y) {
      for (int32_t x = 0; x < s->out_width; ++x, ++pixel) {
        const DevWindow w = dev_window(s, y, x);
        for (int32_t c = 0; c < channels; ++c) sums[c] = 0;
        for (int32_t ky = w.rows.begin; ky < w.rows.end; ++ky) {
          for (int32_t kx = w.columns.begin; kx < w.columns.end; ++kx) {
            const int32_t at = (w.top + ky * s->dilation) * s->in_width + w.left + kx * s->dilation;
            add_tap(bits, image + at * channels, weights->mantissas, ky * s->kernel_width + kx,
                    taps, channels, sums);
          }
        }
        for (int32_t c = 0; c < channels; ++c) {
          const int32_t bias = weights->bias == NULL ? 0 : weights->bias[c];
          sums[c] = sums[c] * (1 << weights->shift) + bias;
        }
        take(work, sums, pixel);
      }
    }
  }
}

#define DEV_WIDTH(bits)                                                                           \
  void dev_convolution_##bits(const DevConvolution* s, const int8_t* input,                       \
                              const DevWeights* weights, int32_t* sums, DevTake take,             \
                              void* work) {                                                       \
    convolve(bits, s, input, weights, sums, take, work);                                          \
  }                                                                                               \
  void dev_depthwise_##bits(const DevConvolution* s, const int8_t* input,                         \
                            const DevWeights* weights, int32_t* sums, DevTake take, void* work) { \
    depthwise(bits, s, input, weights, sums, take, work);                                         \
  }
DEV_WIDTH(8)
DEV_WIDTH(4)
DEV_WIDTH(2)
