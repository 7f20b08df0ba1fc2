#include "device/runtime/pools.h"

#include "reference/elements/rescale.h"

void dev_max_pool(const RefMaxPoolShape* s, const int8_t* in, int8_t* out, int32_t count) {
  const int32_t window = (int32_t)s->window, channels = (int32_t)s->channels;
  const int32_t height = (int32_t)s->in_height, width = (int32_t)s->in_width;
  for (int32_t n = 0; n < count; ++n, in += height * width * channels) {
    for (int32_t y = 0; y + window <= height; y += window) {
      for (int32_t x = 0; x + window <= width; x += window) {
        for (int32_t c = 0; c < channels; ++c) {
          const int8_t* cells = in + (y * width + x) * channels + c;
          int8_t most = *cells;
          for (int32_t i = 1; i < window * window; ++i) {
            const int8_t cell = cells[(i / window * width + i % window) * channels];
            most = cell > most ? cell : most;
          }
          *out++ = most;
        }
      }
    }
  }
}

// The cells that the mean of a window counts along an axis.
static int64_t cells(const RefPoolAxis* axis, int64_t index, int64_t size, bool padded) {
  const RefPoolRange inside = ref_pool_inside(axis, index, size);
  const int64_t first = index * axis->stride - axis->padding;
  if (!padded) return inside.end - inside.begin;
  return ref_smaller(first + axis->window, size + axis->padding) - first;
}

static int8_t mean(int64_t sum, int64_t count, int shift, int limit) {
  enum { kMostShift = 32 };  // from there on everything is clipped, or rounded away
  const int64_t down = ref_clamp(shift, 0, kMostShift), up = ref_clamp(-shift, 0, kMostShift);
  const int64_t rounded = ref_divide_rne(sum * (INT64_C(1) << up), count * (INT64_C(1) << down));
  return (int8_t)ref_saturate(rounded, limit);
}

static void window_means(const DevAverage* a, const int8_t* image, int64_t wy, int64_t wx,
                         int8_t* out) {
  const RefPoolShape* s = &a->shape;
  const RefPoolRange rows = ref_pool_inside(&s->vertical, wy, s->in_height);
  const RefPoolRange columns = ref_pool_inside(&s->horizontal, wx, s->in_width);
  const int64_t count = cells(&s->vertical, wy, s->in_height, a->counts_padding) *
                        cells(&s->horizontal, wx, s->in_width, a->counts_padding);
  for (int64_t c = 0; c < s->channels; ++c) {
    int32_t sum = 0;
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        sum += image[(y * s->in_width + x) * s->channels + c];
      }
    }
    out[c] = mean(sum, count, a->shift, a->limit);
  }
}

void dev_average(const DevAverage* a) {
  const RefPoolShape* s = &a->shape;
  int8_t* out = a->out;
  for (int32_t n = 0; n < a->batch; ++n) {
    const int8_t* image = a->in + n * s->in_height * s->in_width * s->channels;
    for (int64_t wy = 0; wy < s->out_height; ++wy) {
      for (int64_t wx = 0; wx < s->out_width; ++wx, out += s->channels) {
        window_means(a, image, wy, wx, out);
      }
    }
  }
}

void dev_image_average(const DevImageAverage* a) {
  for (int32_t i = 0; i < a->batch * a->channels; ++i) {
    const int8_t* from = a->in + i / a->channels * a->pixels * a->channels + i % a->channels;
    int32_t sum = 0;
    for (int32_t p = 0; p < a->pixels; ++p) sum += from[p * a->channels];
    const RefRescale one = {
        &sum, (const float*)(const void*)&a->multiplier, 1, a->out + i, -a->limit, a->limit};
    (void)ref_rescale_element(&one, 0, 0);
  }
}
