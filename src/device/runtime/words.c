#include "device/runtime/words.h"

#include "device/runtime/four.h"
#include "device/runtime/windows.h"

// Four weights of a word with 8 / bits fours, times 2^(8 - bits).
REF_LOOP DevFour four_of(uint32_t word, int bits, int j) {
  const uint32_t highest = 0x01010101u * (0xffu & 0xff00u >> bits);
  return dev_four_in((word << (bits * j)) & highest);
}

// Mantissas that the words of a channel cover.
REF_LOOP int32_t covered(int32_t words, int bits) { return words * (32 / bits); }
REF_LOOP int32_t words_of(int32_t mantissas, int bits) {
  return (mantissas + 32 / bits - 1) / (32 / bits);
}

// The sums of two pixels with two channels: [pixel][channel].
REF_LOOP void sum_four(int bits, const int8_t* first, const int8_t* second,
                       const uint32_t* restrict weights, int32_t words, int32_t sums[4]) {
  int32_t a = 0, b = 0, c = 0, d = 0;
  for (const uint32_t* end = weights + 2 * words; weights != end; weights += 2) {
    for (int j = 0; j < 8 / bits; ++j, first += 4, second += 4) {
      const DevFour one = four_of(weights[0], bits, j), other = four_of(weights[1], bits, j);
      const DevFour x = dev_four(first), y = dev_four(second);
      a = dev_add_products(x, one, a);
      b = dev_add_products(x, other, b);
      c = dev_add_products(y, one, c);
      d = dev_add_products(y, other, d);
    }
  }
  sums[0] = a;
  sums[1] = b;
  sums[2] = c;
  sums[3] = d;
}

// The same of one pixel.
REF_LOOP void sum_two(int bits, const int8_t* input, const uint32_t* restrict weights,
                      int32_t words, int32_t sums[2]) {
  int32_t a = 0, b = 0;
  for (const uint32_t* end = weights + 2 * words; weights != end; weights += 2) {
    for (int j = 0; j < 8 / bits; ++j, input += 4) {
      const DevFour x = dev_four(input);
      a = dev_add_products(x, four_of(weights[0], bits, j), a);
      b = dev_add_products(x, four_of(weights[1], bits, j), b);
    }
  }
  sums[0] = a;
  sums[1] = b;
}

// The sum in its units, with the bias. Weights of 8 bits have no shift.
REF_LOOP int32_t finished(int bits, int32_t sum, const DevWeights* weights, int32_t channel) {
  const int32_t bias = weights->bias == NULL ? 0 : weights->bias[channel];
  return (bits == 8 ? sum : (sum >> (8 - bits)) * (1 << weights->shift)) + bias;
}

static int8_t* add_zeros(int8_t* to, int32_t count) {
  for (int32_t i = 0; i < count; ++i) to[i] = 0;
  return to + count;
}

static int8_t* add_numbers(int8_t* restrict to, const int8_t* restrict from, int32_t count) {
  int32_t i = 0;
  for (; i + 4 <= count; i += 4) ref_copy(to + i, from + i, 4);
  for (; i < count; ++i) to[i] = from[i];
  return to + count;
}

// The inputs of an output pixel in the order of its weights, zeros outside the image.
static void gather(const DevConvolution* s, const int8_t* image, int32_t y, int32_t x, int8_t* to) {
  const int32_t channels = s->in_channels / s->groups;
  const int32_t top = y * s->stride_height - s->padding_height;
  const int32_t left = x * s->stride_width - s->padding_width;
  const DevRange inside = dev_inside(left, s->kernel_width, s->dilation, s->in_width);
  // Taps of a row that lie beside each other are one run of numbers.
  const bool is_run = s->groups == 1 && s->dilation == 1;
  const int32_t taps = is_run ? inside.end - inside.begin : 1;
  for (int32_t ky = 0; ky < s->kernel_height; ++ky) {
    const int32_t row = top + ky * s->dilation;
    if (row < 0 || row >= s->in_height) {
      to = add_zeros(to, s->kernel_width * channels);
      continue;
    }
    to = add_zeros(to, inside.begin * channels);
    for (int32_t kx = inside.begin; kx < inside.end; kx += taps) {
      const int32_t at = row * s->in_width + left + kx * s->dilation;
      to = add_numbers(to, image + at * s->in_channels, taps * channels);
    }
    to = add_zeros(to, (s->kernel_width - inside.end) * channels);
  }
}

// Where the inputs of pixels come from, of one group.
typedef struct Source {
  const DevConvolution* shape;
  const int8_t* image;  // from the group's first channel on
  int8_t* columns;      // null: the pixels themselves are the inputs, in their order
  int32_t size;         // of a column
} Source;

REF_LOOP const int8_t* inputs_of(const Source* source, int32_t pixel, int which) {
  const DevConvolution* s = source->shape;
  const int32_t y = pixel / s->out_width, x = pixel - y * s->out_width;
  if (source->columns == NULL) {
    const int32_t at = y * s->stride_height * s->in_width + x * s->stride_width;
    return source->image + at * s->in_channels;
  }
  int8_t* column = source->columns + which * source->size;
  gather(s, source->image, y, x, column);
  return column;
}

// The sums of one or two pixels from `pixel` on, of the channels of a group.
REF_LOOP void sum_group(int bits, const Source* source, int32_t pixel, int pixels,
                        const DevWeights* weights, int32_t group, int32_t* sums) {
  const DevConvolution* s = source->shape;
  const int32_t channels = s->out_channels / s->groups, begin = group * channels;
  const int32_t words = source->size / covered(1, bits), pairs = (channels + 1) / 2;
  const uint32_t* at = (const uint32_t*)weights->mantissas + group * pairs * 2 * words;
  const int8_t* const first = inputs_of(source, pixel, 0);
  const int8_t* const second = pixels == 2 ? inputs_of(source, pixel + 1, 1) : NULL;
  for (int32_t o = 0; o < channels; o += 2, at += 2 * words) {
    int32_t found[4];
    if (pixels == 2) sum_four(bits, first, second, at, words, found);
    if (pixels == 1) sum_two(bits, first, at, words, found);
    for (int p = 0; p < pixels; ++p) {
      int32_t* const to = sums + p * s->out_channels + begin + o;
      to[0] = finished(bits, found[2 * p], weights, begin + o);
      if (o + 1 < channels) to[1] = finished(bits, found[2 * p + 1], weights, begin + o + 1);
    }
  }
}

REF_LOOP void sum_pixels(int bits, Source* source, int32_t pixel, int pixels,
                         const DevWeights* weights, int32_t* sums) {
  const DevConvolution* s = source->shape;
  const int8_t* const image = source->image;
  for (int32_t g = 0; g < s->groups; ++g) {
    source->image = image + g * (s->in_channels / s->groups);
    sum_group(bits, source, pixel, pixels, weights, g, sums);
  }
  source->image = image;
}

REF_LOOP void convolve(int bits, const DevConvolution* s, const int8_t* input,
                       const DevWeights* weights, void* work, DevTake take, void* takes) {
  const int32_t kernel = s->kernel_height * s->kernel_width;
  const int32_t inputs = kernel * (s->in_channels / s->groups);
  const int32_t size = covered(words_of(inputs, bits), bits);
  const bool is_pixel = kernel == 1 && s->padding_height + s->padding_width == 0 && size == inputs;
  const int32_t pixels = s->out_height * s->out_width, at_once = pixels > 1 ? 2 : 1;
  int32_t* const sums = (int32_t*)work;
  int8_t* const columns = (int8_t*)(sums + at_once * s->out_channels);
  if (!is_pixel) (void)add_zeros(columns, at_once * size);
  for (int32_t n = 0; n < s->batch; ++n) {
    const int8_t* const image = input + n * (s->in_height * s->in_width * s->in_channels);
    Source source = {s, image, is_pixel ? NULL : columns, size};
    int32_t pixel = 0;
    for (; pixel + 2 <= pixels; pixel += 2) {
      sum_pixels(bits, &source, pixel, 2, weights, sums);
      take(takes, sums, n * pixels + pixel);
      take(takes, sums + s->out_channels, n * pixels + pixel + 1);
    }
    if (pixel < pixels) {
      sum_pixels(bits, &source, pixel, 1, weights, sums);
      take(takes, sums, n * pixels + pixel);
    }
  }
}

// Up to four mantissas.
REF_LOOP DevFour some_of(const int8_t* from, int32_t count) {
  int8_t some[4] = {0, 0, 0, 0};
  for (int32_t i = 0; i < count; ++i) some[i] = from[i];
  return dev_four(some);
}

// The sums of channels c to c + 3, of which `count` exist.
REF_LOOP void sum_taps(int bits, const DevConvolution* s, const int8_t* image, const DevWindow* w,
                       const uint32_t* words, int32_t c, int32_t count, int32_t* sums) {
  const int32_t per_tap = words_of(s->out_channels, bits), channels = s->out_channels;
  const int32_t ky = w->rows.begin, kx = w->columns.begin, d = s->dilation;
  const int8_t* in = image + c + ((w->top + ky * d) * s->in_width + w->left + kx * d) * channels;
  words += (ky * s->kernel_width + kx) * per_tap + c / covered(1, bits);
  int32_t found[4] = {0, 0, 0, 0};
  for (int32_t rows = w->rows.end - ky; rows > 0; --rows) {
    const int8_t* tap = in;
    const uint32_t* word = words;
    for (int32_t taps = w->columns.end - kx; taps > 0; --taps) {
      const DevFour weights = four_of(*word, bits, c % covered(1, bits) / 4);
      dev_add_each(count == 4 ? dev_four(tap) : some_of(tap, count), weights, found);
      tap += d * channels;
      word += per_tap;
    }
    in += d * s->in_width * channels;
    words += s->kernel_width * per_tap;
  }
  sums[c] = found[0];
  if (count > 1) sums[c + 1] = found[1];
  if (count > 2) sums[c + 2] = found[2];
  if (count > 3) sums[c + 3] = found[3];
}

REF_LOOP void depthwise(int bits, const DevConvolution* s, const int8_t* input,
                        const DevWeights* weights, int32_t* sums, DevTake take, void* takes) {
  const int32_t channels = s->out_channels;
  const uint32_t* const words = (const uint32_t*)weights->mantissas;
  int32_t pixel = 0;
  for (int32_t n = 0; n < s->batch; ++n) {
    const int8_t* image = input + n * (s->in_height * s->in_width * channels);
    for (int32_t y = 0; y < s->out_height; ++y) {
      for (int32_t x = 0; x < s->out_width; ++x, ++pixel) {
        const DevWindow w = dev_window(s, y, x);
        int32_t c = 0;
        for (; c + 4 <= channels; c += 4) sum_taps(bits, s, image, &w, words, c, 4, sums);
        if (c < channels) sum_taps(bits, s, image, &w, words, c, channels - c, sums);
        for (c = 0; c < channels; ++c) sums[c] = finished(bits, sums[c], weights, c);
        take(takes, sums, pixel);
      }
    }
  }
}

#define DEV_WIDTH(bits)                                                                  \
  void dev_convolution_words_##bits(const DevConvolution* s, const int8_t* input,        \
                                    const DevWeights* weights, void* work, DevTake take, \
                                    void* takes) {                                       \
    convolve(bits, s, input, weights, work, take, takes);                                \
  }                                                                                      \
  void dev_depthwise_words_##bits(const DevConvolution* s, const int8_t* input,          \
                                  const DevWeights* weights, void* work, DevTake take,   \
                                  void* takes) {                                         \
    depthwise(bits, s, input, weights, (int32_t*)work, take, takes);                     \
  }
DEV_WIDTH(8)
DEV_WIDTH(4)
DEV_WIDTH(2)
