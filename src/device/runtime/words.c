#include "device/runtime/words.h"

#include "device/runtime/four.h"
#include "device/runtime/windows.h"

// Four weights of a word with 8 / bits fours, times 2^(8 - bits).
REF_LOOP DevFour four_of(uint32_t word, int bits, int j) {
  const uint32_t highest = 0x01010101u * (0xffu & 0xff00u >> bits);
  return dev_four_in((word << (bits * j)) & highest);
}

#if defined(__ARM_FEATURE_MVE)
// The sum of sixteen products and `sum`.
REF_LOOP int32_t add_sixteen(uint32x4_t a, uint32x4_t b, int32_t sum) {
  return vmladavaq_s8(sum, vreinterpretq_s8_u32(a), vreinterpretq_s8_u32(b));
}
#endif

// Mantissas that the words of a channel cover.
REF_LOOP int32_t covered(int32_t words, int bits) { return words * (32 / bits); }
REF_LOOP int32_t words_of(int32_t mantissas, int bits) {
  return (mantissas + 32 / bits - 1) / (32 / bits);
}

// The sums of two pixels with two channels, [pixel][channel]. Inputs are [K / 4][pixel].
// The sums of two channels begin at `bias`.
REF_LOOP void sum_four(int bits, const DevFour* restrict inputs, const uint32_t* restrict weights,
                       int32_t words, const int32_t bias[2], int32_t* first_sums,
                       int32_t* second_sums) {
  int32_t a = bias[0], b = bias[1], c = a, d = b;
#if defined(__ARM_FEATURE_MVE)
  for (; bits == 8 && words >= 4; words -= 4, weights += 8, inputs += 8) {
    const uint32x4x2_t w = vld2q_u32(weights), x = vld2q_u32(&inputs->word);
    a = add_sixteen(x.val[0], w.val[0], a);
    b = add_sixteen(x.val[0], w.val[1], b);
    c = add_sixteen(x.val[1], w.val[0], c);
    d = add_sixteen(x.val[1], w.val[1], d);
  }
#endif
  for (const uint32_t* end = weights + 2 * words; weights != end; weights += 2) {
    for (int j = 0; j < 8 / bits; ++j, inputs += 2) {
      const DevFour one = four_of(weights[0], bits, j), other = four_of(weights[1], bits, j);
      const DevFour first = inputs[0], second = inputs[1];
      a = dev_add_products(first, one, a);
      b = dev_add_products(first, other, b);
      c = dev_add_products(second, one, c);
      d = dev_add_products(second, other, d);
    }
  }
  first_sums[0] = a;
  first_sums[1] = b;
  second_sums[0] = c;
  second_sums[1] = d;
}

// The sums of one pixel with two channels.
REF_LOOP void sum_two(int bits, const int8_t* restrict inputs, const uint32_t* restrict weights,
                      int32_t words, const int32_t bias[2], int32_t* sums) {
  int32_t a = bias[0], b = bias[1];
#if defined(__ARM_FEATURE_MVE)
  for (; bits == 8 && words >= 4; words -= 4, weights += 8, inputs += 16) {
    const uint32x4x2_t w = vld2q_u32(weights);
    const uint32x4_t x = vreinterpretq_u32_s8(vld1q_s8(inputs));
    a = add_sixteen(x, w.val[0], a);
    b = add_sixteen(x, w.val[1], b);
  }
#endif
  for (const uint32_t* end = weights + 2 * words; weights != end; weights += 2) {
    for (int j = 0; j < 8 / bits; ++j, inputs += 4) {
      const DevFour x = dev_four(inputs);
      a = dev_add_products(x, four_of(weights[0], bits, j), a);
      b = dev_add_products(x, four_of(weights[1], bits, j), b);
    }
  }
  sums[0] = a;
  sums[1] = b;
}

// Sums of weights of 8 bits begin at the bias. The others come into their units first.
REF_LOOP int32_t start(int bits, const DevWeights* weights, int32_t channel) {
  return bits < 8 || weights->bias == NULL ? 0 : weights->bias[channel];
}

REF_LOOP void finish(int bits, const DevWeights* weights, int32_t* sums, int32_t channels) {
  for (int32_t c = 0; bits < 8 && c < channels; ++c) {
    const int32_t bias = weights->bias == NULL ? 0 : weights->bias[c];
    sums[c] = (sums[c] >> (8 - bits)) * (1 << weights->shift) + bias;
  }
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

// A layer's work on one group of channels.
typedef struct Group {
  const DevConvolution* shape;
  const DevWeights* weights;
  const int8_t* image;    // from the group's first channel on
  const uint32_t* words;  // of its first channel
  int32_t channels, first;
  int32_t count;    // words of a channel
  int8_t* column;   // null: a pixel is its own column
  DevFour* inputs;  // [K / 4][2]
} Group;

// An output pixel.
typedef struct Place {
  int32_t y, x;
} Place;

REF_LOOP Place after(Place at, const DevConvolution* s) {
  const bool is_last = at.x + 1 == s->out_width;
  const Place next = {is_last ? at.y + 1 : at.y, is_last ? 0 : at.x + 1};
  return next;
}

// A pixel's inputs in the order of its weights.
REF_LOOP const int8_t* column_of(const Group* g, Place at) {
  const DevConvolution* s = g->shape;
  if (g->column == NULL) {
    const int32_t pixel = at.y * s->stride_height * s->in_width + at.x * s->stride_width;
    return g->image + pixel * s->in_channels;
  }
  gather(s, g->image, at.y, at.x, g->column);
  return g->column;
}

// The biases of a channel and the next one, if there is one.
REF_LOOP void start_two(int bits, const Group* g, int32_t o, int32_t bias[2]) {
  bias[0] = start(bits, g->weights, g->first + o);
  bias[1] = o + 1 < g->channels ? start(bits, g->weights, g->first + o + 1) : 0;
}

// The sums of a pixel and the next one.
REF_LOOP void sum_pixels(int bits, const Group* g, Place at, int32_t* sums) {
  const int32_t fours = g->count * (8 / bits);
  for (int p = 0; p < 2; ++p, at = after(at, g->shape)) {
    const int8_t* const column = column_of(g, at);
    for (int32_t i = 0; i < fours; ++i) g->inputs[2 * i + p] = dev_four(column + 4 * i);
  }
  int32_t *first = sums + g->first, *second = first + g->shape->out_channels + 1;
  const uint32_t* words = g->words;
  for (int32_t o = 0; o < g->channels; o += 2) {
    int32_t bias[2];
    start_two(bits, g, o, bias);
    sum_four(bits, g->inputs, words, g->count, bias, first + o, second + o);
    words += 2 * g->count;
  }
}

// The sums of a pixel with these inputs.
REF_LOOP void sum_pixel(int bits, const Group* g, const int8_t* column, int32_t* sums) {
  const uint32_t* words = g->words;
  for (int32_t o = 0; o < g->channels; o += 2) {
    int32_t bias[2];
    start_two(bits, g, o, bias);
    sum_two(bits, column, words, g->count, bias, sums + g->first + o);
    words += 2 * g->count;
  }
}

REF_LOOP void convolve(int bits, const DevConvolution* s, const int8_t* input,
                       const DevWeights* weights, void* work, DevTake take, void* takes) {
  const int32_t kernel = s->kernel_height * s->kernel_width;
  const int32_t in_channels = s->in_channels / s->groups, channels = s->out_channels / s->groups;
  const int32_t count = words_of(kernel * in_channels, bits), size = covered(count, bits);
  const bool is_pixel =
      kernel == 1 && s->padding_height + s->padding_width == 0 && size == in_channels;
  const int32_t pixels = s->out_height * s->out_width, at_once = pixels > 1 ? 2 : 1;
  int32_t* const sums = (int32_t*)work;
  DevFour* const inputs = (DevFour*)(void*)(sums + at_once * (s->out_channels + 1));
  int8_t* const column = (int8_t*)(inputs + (at_once == 2 ? size / 2 : 0));
  if (!is_pixel) (void)add_zeros(column, size);
  for (int32_t n = 0; n < s->batch; ++n) {
    const int8_t* const image = input + n * (s->in_height * s->in_width * s->in_channels);
    Place at = {0, 0};
    for (int32_t pixel = 0; pixel < pixels; pixel += 2) {
      const bool is_pair = pixel + 1 < pixels;
      for (int32_t i = 0; i < s->groups; ++i) {
        const uint32_t* words = (const uint32_t*)weights->mantissas;
        words += i * ((channels + 1) / 2 * 2 * count);
        const Group group = {s,
                             weights,
                             image + i * in_channels,
                             words,
                             channels,
                             i * channels,
                             count,
                             is_pixel ? NULL : column,
                             inputs};
        if (is_pair) {
          sum_pixels(bits, &group, at, sums);
        } else {
          sum_pixel(bits, &group, column_of(&group, at), sums);
        }
      }
      for (int p = 0; p < (is_pair ? 2 : 1); ++p) {
        int32_t* const of_pixel = sums + p * (s->out_channels + 1);
        finish(bits, weights, of_pixel, s->out_channels);
        take(takes, of_pixel, n * pixels + pixel + p);
      }
      at = after(after(at, s), s);
    }
  }
}

REF_LOOP void linear(int bits, const DevConvolution* s, const int8_t* input,
                     const DevWeights* weights, void* work, DevTake take, void* takes) {
  const int32_t count = words_of(s->in_channels, bits), size = covered(count, bits);
  const Group all = {s,     weights, input, (const uint32_t*)weights->mantissas, s->out_channels, 0,
                     count, NULL,    NULL};
  int32_t* const sums = (int32_t*)work;
  int8_t* const column = (int8_t*)(sums + s->out_channels + 1);
  for (int32_t n = 0; n < s->batch; ++n, input += s->in_channels) {
    if (size != s->in_channels) {
      (void)add_zeros(add_numbers(column, input, s->in_channels), size - s->in_channels);
    }
    sum_pixel(bits, &all, size == s->in_channels ? input : column, sums);
    finish(bits, weights, sums, s->out_channels);
    take(takes, sums, n);
  }
}

// Adds the products of all channels at a tap, or at two taps that lie beside each other.
REF_LOOP void add_taps(int bits, int taps, const int8_t* restrict in, int32_t to_next,
                       const uint32_t* restrict words, int32_t count, int32_t channels,
                       int32_t* restrict sums) {
  int j = 0;  // the four of the word
  for (; channels >= 4; channels -= 4, in += 4, sums += 4) {
    int32_t found[4] = {sums[0], sums[1], sums[2], sums[3]};
    dev_add_each(dev_four(in), four_of(words[0], bits, j), found);
    if (taps == 2) dev_add_each(dev_four(in + to_next), four_of(words[count], bits, j), found);
    sums[0] = found[0];
    sums[1] = found[1];
    sums[2] = found[2];
    sums[3] = found[3];
    if (++j == 8 / bits) ++words, j = 0;
  }
  for (int32_t c = 0; c < channels; ++c) {
    for (int tap = 0; tap < taps; ++tap) {
      const uint32_t weight =
          (words[tap * count] << (j * bits)) >> (8 * c) & 0xffu & 0xff00u >> bits;
      sums[c] += in[c + tap * to_next] * (int8_t)weight;
    }
  }
}

REF_LOOP void depthwise(int bits, const DevConvolution* s, const int8_t* input,
                        const DevWeights* weights, int32_t* sums, DevTake take, void* takes) {
  const int32_t channels = s->out_channels, count = words_of(channels, bits);
  const uint32_t* const words = (const uint32_t*)weights->mantissas;
  int32_t pixel = 0;
  for (int32_t n = 0; n < s->batch; ++n) {
    const int8_t* image = input + n * (s->in_height * s->in_width * channels);
    for (int32_t y = 0; y < s->out_height; ++y) {
      for (int32_t x = 0; x < s->out_width; ++x, ++pixel) {
        const DevWindow w = dev_window(s, y, x);
        for (int32_t c = 0; c < channels; ++c) sums[c] = start(bits, weights, c);
        for (int32_t ky = w.rows.begin; ky < w.rows.end; ++ky) {
          const int8_t* in = image + (w.top + ky * s->dilation) * s->in_width * channels;
          for (int32_t kx = w.columns.begin; kx < w.columns.end; kx += 2) {
            const int8_t* tap = in + (w.left + kx * s->dilation) * channels;
            const uint32_t* of_tap = words + (ky * s->kernel_width + kx) * count;
            if (kx + 1 < w.columns.end) {
              add_taps(bits, 2, tap, s->dilation * channels, of_tap, count, channels, sums);
            } else {
              add_taps(bits, 1, tap, 0, of_tap, count, channels, sums);
            }
          }
        }
        finish(bits, weights, sums, channels);
        take(takes, sums, pixel);
      }
    }
  }
}

#define DEV_WIDTH(bits)                                                                            \
  void dev_linear_words_##bits(const DevConvolution* s, const int8_t* input,                       \
                               const DevWeights* weights, void* work, DevTake take, void* takes) { \
    linear(bits, s, input, weights, work, take, takes);                                            \
  }                                                                                                \
  void dev_convolution_words_##bits(const DevConvolution* s, const int8_t* input,                  \
                                    const DevWeights* weights, void* work, DevTake take,           \
                                    void* takes) {                                                 \
    convolve(bits, s, input, weights, work, take, takes);                                          \
  }                                                                                                \
  void dev_depthwise_words_##bits(const DevConvolution* s, const int8_t* input,                    \
                                  const DevWeights* weights, void* work, DevTake take,             \
                                  void* takes) {                                                   \
    depthwise(bits, s, input, weights, (int32_t*)work, take, takes);                               \
  }
DEV_WIDTH(8)
DEV_WIDTH(4)
DEV_WIDTH(2)
