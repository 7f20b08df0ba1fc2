#include "device/operators/elements.h"

#include "device/operators/half_up.h"
#include "reference/elements/elements.h"
#include "reference/elements/rounding.h"

enum { kAlignBits8 = 16, kAlignBits16 = 40, kMostShift = 62 };

static int64_t pixel_of(const void* work, int32_t i, int32_t c) {
  const DevTrainingPixels* p = (const DevTrainingPixels*)work;
  return (int64_t)p->pixels[i] * (1 << p->fraction) - p->means[c];
}

void dev_train_pixels(DevStep* step, const DevTrainingPixels* pixels, const DevTensor* out) {
  const DevElements elements = {pixel_of, pixels, out};
  const int wide_bits = pixels->fraction == 0 ? 32 : 64;
  dev_write_value(step, &elements, pixels->exponent, wide_bits - out->bits);
}

void dev_train_pixels_half_up(DevStep* step, const DevTrainingPixels* pixels,
                              const DevTensor* out) {
  const DevElements elements = {pixel_of, pixels, out};
  dev_write_half_up(step, &elements, pixels->exponent);
}

static int64_t number_of(const void* work, int32_t i, int32_t c) {
  (void)c;
  return ((const int16_t*)work)[i];
}

void dev_train_numbers(DevStep* step, const int16_t* numbers, int exponent, const DevTensor* out) {
  const DevElements elements = {number_of, numbers, out};
  dev_write_value(step, &elements, exponent, 64 - out->bits);
}

void dev_train_relu(const DevTensor* in, const DevTensor* out) {
  RefStatistics unused = {0, 0};
  for (int32_t i = 0; i < out->count; ++i) {
    dev_put(out, i, ref_larger(0, dev_at(in, i)), 0, &unused);
  }
  *out->exponent = *in->exponent;
}

void dev_train_masked(const DevTensor* out, const DevTensor* grad_out, const DevTensor* grad_in) {
  RefStatistics unused = {0, 0};
  for (int32_t i = 0; i < grad_in->count; ++i) {
    const bool passes = out == NULL || dev_at(out, i) > 0;
    dev_put(grad_in, i, passes ? dev_at(grad_out, i) : 0, 0, &unused);
  }
  *grad_in->exponent = *grad_out->exponent;
}

typedef struct Sum {
  const DevTensor *a, *b;
  int shift_a, shift_b;
  bool relu;
} Sum;

static int64_t sum_of(const void* work, int32_t i, int32_t c) {
  const Sum* s = (const Sum*)work;
  (void)c;
  const int64_t sum =
      ref_rescale_rne(dev_at(s->a, i), s->shift_a) + ref_rescale_rne(dev_at(s->b, i), s->shift_b);
  return s->relu ? ref_larger(0, sum) : sum;
}

static Sum sum_at(const DevTensor* a, const DevTensor* b, bool relu, int exponent) {
  const Sum sum = {a, b, exponent - *a->exponent, exponent - *b->exponent, relu};
  return sum;
}

void dev_train_add(DevStep* step, const DevTensor* a, const DevTensor* b, bool relu,
                   const DevTensor* out) {
  const int exponent = ref_aligned_exponent(*a->exponent, *b->exponent, kAlignBits8);
  const Sum sum = sum_at(a, b, relu, exponent);
  const DevElements elements = {sum_of, &sum, out};
  dev_write_value(step, &elements, exponent, 32 - out->bits);
}

// If no addend is shifted right, the sum is exact, and is rounded half up itself.
void dev_train_add_half_up(DevStep* step, const DevTensor* a, const DevTensor* b, bool relu,
                           const DevTensor* out) {
  const int exponent = ref_aligned_exponent(*a->exponent, *b->exponent, kAlignBits8);
  const Sum sum = sum_at(a, b, relu, exponent);
  const DevElements elements = {sum_of, &sum, out};
  if (sum.shift_a > 0 || sum.shift_b > 0) {
    dev_write_half_up(step, &elements, exponent);
    return;
  }
  const DevNarrowing narrowing = {dev_pass_half_up, &elements, out, exponent, 32 - out->bits};
  dev_narrow_value(step, &narrowing);
}

void dev_train_sum(DevStep* step, const DevTensor* a, const DevTensor* b, const DevTensor* to) {
  const int exponent = ref_aligned_exponent(*a->exponent, *b->exponent, kAlignBits16);
  const Sum sum = sum_at(a, b, false, exponent);
  const DevElements elements = {sum_of, &sum, to};
  dev_write_gradient(step, &elements, exponent);
}

// The exact exponent of a gradient in fewer bits; returns the shift to it.
static int set_exact_exponent(DevStep* step, const DevTensor* wide, const DevTensor* out) {
  uint64_t maximum = 0;
  for (int32_t i = 0; i < wide->count; ++i) {
    const uint64_t size = ref_magnitude(dev_at(wide, i));
    maximum = size > maximum ? size : maximum;
  }
  *out->exponent = dev_checked(step, ref_exact_exponent(maximum, *wide->exponent, out->bits));
  return ref_exact_shift(maximum, out->bits);
}

void dev_train_round(DevStep* step, const DevTensor* wide, const DevTensor* out) {
  const int shift = set_exact_exponent(step, wide, out);
  RefStatistics found = {0, 0};
  for (int32_t i = 0; i < out->count; ++i) dev_put(out, i, dev_at(wide, i), shift, &found);
  step->clipped += found.saturated;
}

void dev_train_round_at_random(DevStep* step, const DevTensor* wide, uint32_t key,
                               const DevTensor* out) {
  const uint32_t batch = (uint32_t)(step->scalars.step * step->micro_batches + step->micro_batch);
  const RefRoundStochastically args = {
      .key = {.stream = 4, .seed = step->scalars.seed, .micro_batch = batch, .tensor = key},
      .in = (const int16_t*)wide->data,
      .shift = set_exact_exponent(step, wide, out),
      .out = {out->data, out->bits}};
  step->clipped += ref_round_stochastically(&args, 0, out->count);
}

void dev_train_max_pool(const RefMaxPoolShape* shape, const DevTensor* in, const DevTensor* out,
                        int32_t images) {
  dev_max_pool(shape, (const int8_t*)in->data, (int8_t*)out->data, images);
  *out->exponent = *in->exponent;
}

// The place of a window's first maximum, in row-major order, from its first cell on.
static int32_t first_maximum(const DevTensor* in, int32_t first, int32_t window, int32_t width,
                             int32_t channels) {
  int32_t place = 0;
  for (int32_t i = 1; i < window * window; ++i) {
    const int32_t at = (i / window * width + i % window) * channels;
    if (dev_at(in, first + at) > dev_at(in, first + place)) place = at;
  }
  return place;
}

void dev_train_max_pool_gradient(const RefMaxPoolShape* shape, const DevTensor* in,
                                 const DevTensor* grad_out, const DevTensor* grad_in,
                                 int32_t images) {
  const int32_t window = (int32_t)shape->window, channels = (int32_t)shape->channels;
  const int32_t width = (int32_t)shape->in_width, height = (int32_t)shape->in_height;
  RefStatistics unused = {0, 0};
  int32_t window_index = 0;
  for (int32_t i = 0; i < grad_in->count; ++i) dev_put(grad_in, i, 0, 0, &unused);
  for (int32_t n = 0; n < images; ++n) {
    for (int32_t y = 0; y + window <= height; y += window) {
      for (int32_t x = 0; x + window <= width; x += window) {
        for (int32_t c = 0; c < channels; ++c, ++window_index) {
          const int32_t first = ((n * height + y) * width + x) * channels + c;
          const int32_t at = first + first_maximum(in, first, window, width, channels);
          dev_put(grad_in, at, dev_at(grad_out, window_index), 0, &unused);
        }
      }
    }
  }
  *grad_in->exponent = *grad_out->exponent;
}

// 1 / pixels as a multiplier of this many bits, at the exponent -shift.
typedef struct Reciprocal {
  int64_t multiplier;
  int shift;
} Reciprocal;

static Reciprocal reciprocal(int32_t pixels, int bits) {
  const RefReal real = ref_real_quotient(ref_real(1), ref_real(pixels));
  const int shift = ref_fixed_point_shift(real, bits);
  const Reciprocal result = {ref_fixed_point(real, shift, ref_mantissa_limit(bits + 1)), shift};
  return result;
}

typedef struct Average {
  const DevImages* images;
  int64_t multiplier;
} Average;

static int64_t average_of(const void* work, int32_t i, int32_t c) {
  const Average* a = (const Average*)work;
  const DevImages* m = a->images;
  const int32_t channels = m->to->channels;
  const int32_t first = i / channels * m->pixels * channels + c;
  int64_t sum = 0;
  for (int32_t p = 0; p < m->pixels; ++p) sum += dev_at(m->from, first + p * channels);
  return sum * a->multiplier;
}

void dev_train_image_average(DevStep* step, const DevImages* images) {
  const Reciprocal mean = reciprocal(images->pixels, 31);
  const Average average = {images, mean.multiplier};
  const DevElements elements = {average_of, &average, images->to};
  dev_write_value(step, &elements, *images->from->exponent - mean.shift, kMostShift);
}

void dev_train_image_average_half_up(DevStep* step, const DevImages* images) {
  const Reciprocal mean = reciprocal(images->pixels, 31);
  const Average average = {images, mean.multiplier};
  const DevElements elements = {average_of, &average, images->to};
  dev_write_half_up(step, &elements, *images->from->exponent - mean.shift);
}

static int64_t spread_of(const void* work, int32_t i, int32_t c) {
  const Average* a = (const Average*)work;
  const DevImages* m = a->images;
  const int32_t image = i / (m->to->channels * m->pixels);
  return dev_at(m->from, image * m->to->channels + c) * a->multiplier;
}

void dev_train_image_average_gradient(DevStep* step, const DevImages* images) {
  const Reciprocal mean = reciprocal(images->pixels, images->from->bits <= 16 ? 31 : 30);
  const Average average = {images, mean.multiplier};
  const DevElements elements = {spread_of, &average, images->to};
  dev_write_gradient(step, &elements, *images->from->exponent - mean.shift);
}

typedef struct Dropout {
  const DevDropout* dropout;
  RefRandomKey key;
} Dropout;

static Dropout dropout_of(const DevStep* step, const DevDropout* d) {
  enum { kDropout = 6 };
  const uint32_t batch = (uint32_t)(step->scalars.step * step->micro_batches + step->micro_batch);
  const Dropout dropout = {d, {kDropout, step->scalars.seed, batch, d->node}};
  return dropout;
}

static int64_t kept(const void* work, int32_t i, int32_t c) {
  const Dropout* d = (const Dropout*)work;
  int8_t keep = 0;
  (void)c;
  ref_keep_mask(&d->key, d->dropout->dropped, i, (int64_t)i + 1, &keep);
  return keep == 0 ? 0 : dev_at(d->dropout->in, i) * d->dropout->scale;
}

enum { kScaleBits = 30 };

void dev_train_dropout(DevStep* step, const DevDropout* d, const DevTensor* out) {
  const Dropout dropout = dropout_of(step, d);
  const DevElements elements = {kept, &dropout, out};
  dev_write_value(step, &elements, *d->in->exponent - kScaleBits, kMostShift);
}

void dev_train_dropout_gradient(DevStep* step, const DevDropout* d, const DevTensor* grad_in) {
  const Dropout dropout = dropout_of(step, d);
  const DevElements elements = {kept, &dropout, grad_in};
  dev_write_gradient(step, &elements, *d->in->exponent - kScaleBits);
}
