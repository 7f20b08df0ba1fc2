#include "device/runtime/convolution.h"

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
        for (int32_t o = 0; o < s->out_channels; ++o) {
          const int32_t bias = weights->bias == NULL ? 0 : weights->bias[o];
          const int32_t sum = sum_of(s, image, weights->mantissas, bits, &window, o);
          sums[o] = sum * (1 << weights->shift) + bias;
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
