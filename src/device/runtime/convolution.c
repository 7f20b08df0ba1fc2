#include "device/runtime/convolution.h"

#include "device/runtime/four.h"
#include "device/runtime/windows.h"

// The sum of products of `count` inputs with weights: |sum| < 2^31, as all sums of a layer together
// (reference/layers/convolution.h).
REF_LOOP int32_t dot(const int8_t* restrict in, const int8_t* restrict weights, int32_t count) {
  int32_t sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += in[i] * weights[i];
  return sum;
}

// The products of `count` inputs with two rows of weights: an input is loaded once.
REF_LOOP void dot_two(const int8_t* restrict in, const int8_t* restrict weights, int32_t to_second,
                      int32_t count, int32_t* sums) {
  int32_t first = sums[0], second = sums[1], i = 0;
  for (; i + 4 <= count; i += 4) {
    const DevFour x = dev_four(in + i);
    first = dev_add_products(x, dev_four(weights + i), first);
    second = dev_add_products(x, dev_four(weights + i + to_second), second);
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
REF_LOOP int32_t sum_of(const DevConvolution* s, const int8_t* image, const int8_t* weights,
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
      sum += dot(in, weights + (from + kx) * channels, is_run ? taps * channels : channels);
    }
  }
  return sum;
}

// Adds the products of all channels at one tap.
REF_LOOP void add_tap(const int8_t* restrict in, const int8_t* restrict weights, int32_t step,
                      int32_t channels, int32_t* restrict sums) {
  for (int32_t c = 0; c < channels; ++c) sums[c] += in[c] * weights[c * step];
}

static void add_bias(const DevConvolution* s, const DevWeights* weights, int32_t* sums) {
  for (int32_t o = 0; o < s->out_channels; ++o) {
    const int32_t bias = weights->bias == NULL ? 0 : weights->bias[o];
    sums[o] = sums[o] * (1 << weights->shift) + bias;
  }
}

void dev_convolution_8(const DevConvolution* s, const int8_t* input, const DevWeights* weights,
                       int32_t* sums, DevTake take, void* work) {
  const int8_t* const mantissas = (const int8_t*)weights->mantissas;
  int32_t pixel = 0;
  for (int32_t n = 0; n < s->batch; ++n) {
    const int8_t* image = input + n * (s->in_height * s->in_width * s->in_channels);
    for (int32_t y = 0; y < s->out_height; ++y) {
      for (int32_t x = 0; x < s->out_width; ++x, ++pixel) {
        const DevWindow window = dev_window(s, y, x);
        int32_t o = 0;
        for (; s->groups == 1 && o + 2 <= s->out_channels; o += 2) {
          sum_two(s, image, mantissas, &window, o, sums + o);
        }
        for (; o < s->out_channels; ++o) sums[o] = sum_of(s, image, mantissas, &window, o);
        add_bias(s, weights, sums);
        take(work, sums, pixel);
      }
    }
  }
}

void dev_depthwise_8(const DevConvolution* s, const int8_t* input, const DevWeights* weights,
                     int32_t* sums, DevTake take, void* work) {
  const int8_t* const mantissas = (const int8_t*)weights->mantissas;
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
            add_tap(image + at * channels, mantissas + ky * s->kernel_width + kx, taps, channels,
                    sums);
          }
        }
        add_bias(s, weights, sums);
        take(work, sums, pixel);
      }
    }
  }
}
