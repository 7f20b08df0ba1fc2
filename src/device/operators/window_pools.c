#include "device/operators/window_pools.h"

#include "reference/elements/elements.h"

typedef struct Range {
  int32_t begin, end;
} Range;

static int32_t first_of(const DevAxis* a, int32_t index) { return index * a->stride - a->padding; }

// The cells of a window inside the image.
static Range inside(const DevAxis* a, int32_t index) {
  const int32_t first = first_of(a, index), end = first + a->window;
  const Range range = {first < 0 ? 0 : first, end > a->size ? a->size : end};
  return range;
}

// The windows that hold a cell.
static Range windows_over(const DevAxis* a, int32_t at) {
  const int32_t before = at + a->padding - a->window, end = (at + a->padding) / a->stride + 1;
  const Range range = {before < 0 ? 0 : before / a->stride + 1,
                       end > a->windows ? a->windows : end};
  return range;
}

// A window or a cell, by its number through all images.
typedef struct Place {
  int32_t image, y, x;
} Place;

static Place place_of(int32_t index, int32_t height, int32_t width) {
  const Place place = {index / width / height, index / width % height, index % width};
  return place;
}

static Place window_at(const DevWindows* w, int32_t index) {
  return place_of(index, w->vertical.windows, w->horizontal.windows);
}

static Place cell_at(const DevWindows* w, int32_t index) {
  return place_of(index, w->vertical.size, w->horizontal.size);
}

// The first element of a cell, or of a window's result.
static int32_t element_of(const DevWindows* w, int32_t image, int32_t y, int32_t x) {
  return ((image * w->vertical.size + y) * w->horizontal.size + x) * w->channels;
}
static int32_t result_of(const DevWindows* w, int32_t image, int32_t wy, int32_t wx) {
  return ((image * w->vertical.windows + wy) * w->horizontal.windows + wx) * w->channels;
}

// The number of a cell within a window, from left to right and down.
static int8_t tap_of(const DevWindows* w, int32_t wy, int32_t wx, int32_t y, int32_t x) {
  const int32_t row = y - first_of(&w->vertical, wy), column = x - first_of(&w->horizontal, wx);
  return (int8_t)(row * w->horizontal.window + column);
}

// The largest of a window in channel c, and the tap of the first one.
static int64_t maximum_of(const DevWindows* w, const DevTensor* in, Place window, int32_t c,
                          int8_t* tap) {
  const Range rows = inside(&w->vertical, window.y), columns = inside(&w->horizontal, window.x);
  int64_t best = INT64_MIN;
  for (int32_t y = rows.begin; y < rows.end; ++y) {
    for (int32_t x = columns.begin; x < columns.end; ++x) {
      const int64_t here = dev_at(in, element_of(w, window.image, y, x) + c);
      if (here <= best) continue;
      best = here;
      *tap = tap_of(w, window.y, window.x, y, x);
    }
  }
  return best;
}

void dev_train_window_maxima(const DevWindows* w, const DevTensor* in, const DevTensor* out) {
  RefStatistics unused = {0, 0};
  for (int32_t i = 0; i < out->count; ++i) {
    int8_t tap = 0;
    const int64_t best = maximum_of(w, in, window_at(w, i / w->channels), i % w->channels, &tap);
    dev_put(out, i, best, 0, &unused);
  }
  *out->exponent = *in->exponent;
}

// Gradients that cells gather from the windows over them: of maxima by their taps, of means times
// multipliers.
typedef struct Gather {
  const DevWindows* windows;
  const DevTensor* grad_out;
  const int8_t* taps;
  const DevMeans* means;
} Gather;

static int64_t gradient_of_maximum(const void* work, int32_t i, int32_t c) {
  const Gather* g = (const Gather*)work;
  const DevWindows* w = g->windows;
  const Place cell = cell_at(w, i / w->channels);
  const Range rows = windows_over(&w->vertical, cell.y);
  const Range columns = windows_over(&w->horizontal, cell.x);
  int64_t sum = 0;
  for (int32_t wy = rows.begin; wy < rows.end; ++wy) {
    for (int32_t wx = columns.begin; wx < columns.end; ++wx) {
      const int32_t result = result_of(w, cell.image, wy, wx) + c;
      if (g->taps[result] == tap_of(w, wy, wx, cell.y, cell.x)) sum += dev_at(g->grad_out, result);
    }
  }
  return sum;
}

void dev_train_window_maxima_gradient(DevStep* step, const DevWindows* w, const DevTensor* in,
                                      const DevTensor* grad_out, int8_t* taps,
                                      const DevTensor* grad_in) {
  for (int32_t i = 0; i < grad_out->count; ++i) {
    (void)maximum_of(w, in, window_at(w, i / w->channels), i % w->channels, taps + i);
  }
  const Gather gather = {w, grad_out, taps, NULL};
  const DevElements elements = {gradient_of_maximum, &gather, grad_in};
  dev_write_gradient(step, &elements, *grad_out->exponent);
}

// The cells of a window along an axis.
static int32_t cells(const DevMeans* m, const DevAxis* a, int32_t index) {
  const Range range = inside(a, index);
  const int32_t first = first_of(a, index), last = first + a->window;
  if (!m->counts_padding) return range.end - range.begin;
  return (last > a->size + a->padding ? a->size + a->padding : last) - first;
}

static int64_t multiplier_of(const DevMeans* m, int32_t wy, int32_t wx) {
  const int32_t count = cells(m, &m->windows.vertical, wy) * cells(m, &m->windows.horizontal, wx);
  return m->multipliers[count - m->least];
}

typedef struct Mean {
  const DevMeans* means;
  const DevTensor* in;
} Mean;

static int64_t mean_of(const void* work, int32_t i, int32_t c) {
  const Mean* m = (const Mean*)work;
  const DevWindows* w = &m->means->windows;
  const Place window = window_at(w, i / w->channels);
  const Range rows = inside(&w->vertical, window.y), columns = inside(&w->horizontal, window.x);
  int32_t sum = 0;
  for (int32_t y = rows.begin; y < rows.end; ++y) {
    for (int32_t x = columns.begin; x < columns.end; ++x) {
      sum += (int32_t)dev_at(m->in, element_of(w, window.image, y, x) + c);
    }
  }
  return sum * multiplier_of(m->means, window.y, window.x);
}

void dev_train_window_means(DevStep* step, const DevMeans* m, const DevTensor* in,
                            const DevTensor* out) {
  const Mean mean = {m, in};
  const DevElements elements = {mean_of, &mean, out};
  dev_write_value(step, &elements, *in->exponent + m->exponent, 64 - out->bits);
}

static int64_t gradient_of_mean(const void* work, int32_t i, int32_t c) {
  const Gather* g = (const Gather*)work;
  const DevWindows* w = g->windows;
  const Place cell = cell_at(w, i / w->channels);
  const Range rows = windows_over(&w->vertical, cell.y);
  const Range columns = windows_over(&w->horizontal, cell.x);
  int64_t sum = 0;
  for (int32_t wy = rows.begin; wy < rows.end; ++wy) {
    for (int32_t wx = columns.begin; wx < columns.end; ++wx) {
      const int64_t gradient = dev_at(g->grad_out, result_of(w, cell.image, wy, wx) + c);
      sum += gradient * multiplier_of(g->means, wy, wx);
    }
  }
  return sum;
}

void dev_train_window_means_gradient(DevStep* step, const DevMeans* m, const DevTensor* grad_out,
                                     const DevTensor* grad_in) {
  const Gather gather = {&m->windows, grad_out, NULL, m};
  const DevElements elements = {gradient_of_mean, &gather, grad_in};
  dev_write_gradient(step, &elements, *grad_out->exponent + m->exponent);
}
