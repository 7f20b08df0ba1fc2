// Pooling by windows that may overlap and reach beyond the image: maximum and average, and their
// gradients, in which several outputs send something to one input. Channels in chunks, whose maxima
// or sums stay in the first-level cache or in registers.
#include "reference/elements/elements.h"
#include "reference/layers/pooling.h"

enum { kChunk = 64 };

// The tap of window (wy, wx) that the cell (y, x) is.
static int8_t tap_of(const RefPoolShape* s, int64_t wy, int64_t wx, int64_t y, int64_t x) {
  const int64_t row = y - (wy * s->vertical.stride - s->vertical.padding);
  const int64_t column = x - (wx * s->horizontal.stride - s->horizontal.padding);
  return (int8_t)(row * s->horizontal.window + column);
}

// The cells of a window.
typedef struct Window {
  int64_t y, x;  // its place among windows
  RefPoolRange rows, columns;
} Window;

static Window window_of(const RefPoolShape* s, int64_t window) {
  const int64_t wy = window / s->out_width, wx = window % s->out_width;
  const Window found = {wy, wx, ref_pool_inside(&s->vertical, wy, s->in_height),
                        ref_pool_inside(&s->horizontal, wx, s->in_width)};
  return found;
}

// Best of a window so far, and its tap, from the cell at `from` that is the tap `here`. Once for
// each type: compilers compare what they load as 32 bits as such.
REF_LOOP void take_larger(int bytes, int64_t width, const void* restrict in, int64_t from,
                          int8_t here, void* restrict best, int8_t* restrict taps) {
  const int8_t* restrict cell8 = (const int8_t*)in + from;
  const int16_t* restrict cell16 = (const int16_t*)in + from;
  int8_t* restrict best8 = (int8_t*)best;
  int16_t* restrict best16 = (int16_t*)best;
  for (int64_t c = 0; bytes == 1 && c < width; ++c) {
    taps[c] = cell8[c] > best8[c] ? here : taps[c];
    best8[c] = cell8[c] > best8[c] ? cell8[c] : best8[c];
  }
  for (int64_t c = 0; bytes == 2 && c < width; ++c) {
    taps[c] = cell16[c] > best16[c] ? here : taps[c];
    best16[c] = cell16[c] > best16[c] ? cell16[c] : best16[c];
  }
}

// `width` channels from the offsets `image` of the input and `to` of the outputs on.
REF_LOOP void maximum_of(int bytes, int64_t width, const RefPoolShape* s, const Window* window,
                         const void* in, int64_t image, void* out, int8_t* taps, int64_t to) {
  int16_t best[kChunk];
  int8_t chosen[kChunk];
  const int64_t y0 = window->rows.begin, x0 = window->columns.begin;
  const int64_t first = image + (y0 * s->in_width + x0) * s->channels;
  const int8_t first_tap = tap_of(s, window->y, window->x, y0, x0);
  for (int64_t c = 0; c < width; ++c) {
    ref_store(best, bytes, c, ref_load32(in, bytes, first + c));
    chosen[c] = first_tap;
  }
  for (int64_t y = y0; y < window->rows.end; ++y) {
    for (int64_t x = x0; x < window->columns.end; ++x) {
      take_larger(bytes, width, in, image + (y * s->in_width + x) * s->channels,
                  tap_of(s, window->y, window->x, y, x), best, chosen);
    }
  }
  if (out != NULL) ref_copy((char*)out + to * bytes, best, width * bytes);
  if (taps != NULL) ref_copy(taps + to, chosen, width);
}

REF_LOOP void maxima_of_image(int bytes, const RefPoolShape* s, const void* in, void* out,
                              int8_t* taps, int64_t n) {
  const int64_t windows = s->out_height * s->out_width;
  const int64_t image = n * s->in_height * s->in_width * s->channels;
  for (int64_t i = 0; i < windows; ++i) {
    const Window window = window_of(s, i);
    const int64_t to = (n * windows + i) * s->channels;
    int64_t c = 0;
    for (; c + kChunk <= s->channels; c += kChunk) {
      maximum_of(bytes, kChunk, s, &window, in, image + c, out, taps, to + c);
    }
    if (c == s->channels) continue;
    maximum_of(bytes, s->channels - c, s, &window, in, image + c, out, taps, to + c);
  }
}

void ref_max_pool_windows(const RefPoolShape* s, RefConstSpan in, RefSpan out, int8_t* taps,
                          int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    REF_WITH_SHORT_BYTES(in.bits, bytes, maxima_of_image(bytes, s, in.data, out.data, taps, n));
  }
}

// What cells get from the windows over them: the gradients of those whose maximum they are, if
// there are taps, else gradients times multipliers.
typedef struct Gather {
  const RefPoolShape* shape;
  const int8_t* taps;
  const int64_t* multipliers;
  RefConstSpan grad_out;
  RefSpan grad_in;
  int shift;
  RefWideCounts* counts;  // or null
} Gather;

// A chunk's exact sums: a cell lies in at most 11 * 11 windows, so that sums of 16 bits fit 23
// bits, and of 32 bits 39.
REF_LOOP void sums_of_cell(int bytes, bool by_taps, int64_t width, const Gather* g, int64_t n,
                           int64_t y, int64_t x, RefPoolRange rows, int64_t first, int32_t* narrow,
                           int64_t* wide) {
  const RefPoolShape* s = g->shape;
  const RefPoolRange columns = ref_pool_windows_over(&s->horizontal, x, s->out_width);
  for (int64_t c = 0; by_taps && bytes <= 2 && c < width; ++c) narrow[c] = 0;
  for (int64_t c = 0; (!by_taps || bytes > 2) && c < width; ++c) wide[c] = 0;
  for (int64_t wy = rows.begin; wy < rows.end; ++wy) {
    for (int64_t wx = columns.begin; wx < columns.end; ++wx) {
      const int64_t window = wy * s->out_width + wx;
      const int64_t out = (n * s->out_height * s->out_width + window) * s->channels + first;
      const int8_t here = tap_of(s, wy, wx, y, x);
      for (int64_t c = 0; c < width; ++c) {
        const int64_t grad = ref_load(g->grad_out.data, bytes, out + c);
        if (!by_taps) {
          wide[c] += grad * g->multipliers[window];
        } else if (bytes <= 2) {
          narrow[c] +=
              ref_if(g->taps[out + c] == here, 4, ref_load32(g->grad_out.data, bytes, out + c));
        } else {
          wide[c] += grad & -(int64_t)(g->taps[out + c] == here);
        }
      }
    }
  }
}

// Adds the statistics of a chunk; whether its sums are to be counted.
REF_LOOP bool add_statistics(RefStatistics* found, const RefWideCounts* counts, int64_t low,
                             int64_t high, int64_t clipped) {
  const RefStatistics chunk = ref_statistics(low, high, clipped);
  found->maximum = chunk.maximum > found->maximum ? chunk.maximum : found->maximum;
  found->saturated += chunk.saturated;
  return counts != NULL && ref_wants(counts, &chunk);
}

// Narrows the sums of 32 bits of a chunk, from `to` on.
REF_LOOP void narrow_words(int bytes, int64_t width, const int32_t* restrict sums, const Gather* g,
                           int64_t to, RefStatistics* found) {
  const RefRound32 round = ref_round32(g->shift > 30 ? 30 : g->shift);
  const int32_t limit = (int32_t)ref_mantissa_limit(g->grad_in.bits);
  void* restrict out = g->grad_in.data;
  RefRange32 range = {0, 0};
  int32_t clipped = 0;
  for (int64_t c = 0; c < width; ++c) {
    ref_include32(&range, sums[c]);
    const int32_t rounded = ref_rounded32(&round, sums[c]);
    clipped += ref_store_narrow32(out, bytes, to + c, rounded, limit);
  }
  if (!add_statistics(found, g->counts, range.low, range.high, clipped)) return;
  for (int64_t c = 0; c < width; ++c) ref_count_wide(g->counts, sums[c]);
}

// The same of 64 bits; without a result it only counts. Left shifts, which only a fixed exponent
// asks for, are rare.
REF_LOOP void narrow_sums(int bytes, int64_t width, const int64_t* restrict sums, int shift,
                          RefSpan span, int64_t to, RefStatistics* found, RefWideCounts* counts) {
  const RefRound64 round = ref_round64(shift);
  const int64_t limit = ref_mantissa_limit(span.bits);
  void* restrict out = span.data;
  RefRange64 range = {0, 0};
  int64_t clipped = 0;
  for (int64_t c = 0; c < width; ++c) {
    ref_include64(&range, sums[c]);
    const int64_t rounded =
        shift < 0 ? ref_rescale_rne(sums[c], shift) : ref_rounded64(&round, sums[c]);
    const int64_t narrow = ref_saturate(rounded, limit);
    clipped += narrow != rounded;
    if (out != NULL) ref_store(out, bytes, to + c, narrow);
  }
  if (!add_statistics(found, counts, range.low, range.high, clipped)) return;
  for (int64_t c = 0; c < width; ++c) ref_count_wide(counts, sums[c]);
}

REF_LOOP void gather_chunk(int bytes, bool by_taps, int64_t width, const Gather* g, int64_t n,
                           int64_t y, int64_t x, RefPoolRange rows, int64_t first,
                           RefStatistics* found) {
  const RefPoolShape* s = g->shape;
  int32_t narrow[kChunk];
  int64_t wide[kChunk];
  const int64_t to = ((n * s->in_height + y) * s->in_width + x) * s->channels + first;
  sums_of_cell(bytes, by_taps, width, g, n, y, x, rows, first, narrow, wide);
  if (by_taps && bytes <= 2) {
    REF_WITH_BYTES(g->grad_in.bits, out_bytes,
                   narrow_words(out_bytes, width, narrow, g, to, found));
  } else {
    REF_WITH_BYTES(g->grad_in.bits, out_bytes,
                   narrow_sums(out_bytes, width, wide, g->shift, g->grad_in, to, found, g->counts));
  }
}

REF_LOOP RefStatistics gather_images(int bytes, bool by_taps, const Gather* g, int64_t begin,
                                     int64_t end) {
  const RefPoolShape* s = g->shape;
  RefStatistics found = {0, 0};
  for (int64_t row = begin * s->in_height; row < end * s->in_height; ++row) {
    const int64_t n = row / s->in_height, y = row % s->in_height;
    const RefPoolRange rows = ref_pool_windows_over(&s->vertical, y, s->out_height);
    for (int64_t x = 0; x < s->in_width; ++x) {
      int64_t c = 0;
      for (; c + kChunk <= s->channels; c += kChunk) {
        gather_chunk(bytes, by_taps, kChunk, g, n, y, x, rows, c, &found);
      }
      if (c == s->channels) continue;
      gather_chunk(bytes, by_taps, s->channels - c, g, n, y, x, rows, c, &found);
    }
  }
  return found;
}

RefStatistics ref_max_pool_windows_gradient(const RefPoolShape* s, const int8_t* taps,
                                            RefConstSpan grad_out, int shift, RefSpan grad_in,
                                            int64_t begin, int64_t end, RefWideCounts* counts) {
  const Gather gather = {s, taps, NULL, grad_out, grad_in, shift, counts};
  REF_WITH_BYTES(grad_out.bits, bytes, return gather_images(bytes, true, &gather, begin, end));
}

RefStatistics ref_average_pool_gradient(const RefPoolShape* s, const int64_t* multipliers,
                                        RefConstSpan grad_out, int shift, RefSpan grad_in,
                                        int64_t begin, int64_t end, RefWideCounts* counts) {
  const Gather gather = {s, NULL, multipliers, grad_out, grad_in, shift, counts};
  REF_WITH_BYTES(grad_out.bits, bytes, return gather_images(bytes, false, &gather, begin, end));
}

// Sums of at most 11 * 11 cells of 8 bits, times 2^31: below 2^46.
REF_LOOP void average_chunk(int64_t width, const RefAveragePool* p, const Window* window,
                            int64_t image, int64_t multiplier, int64_t to, RefStatistics* found) {
  int32_t sums[kChunk];
  for (int64_t c = 0; c < width; ++c) sums[c] = 0;
  for (int64_t y = window->rows.begin; y < window->rows.end; ++y) {
    for (int64_t x = window->columns.begin; x < window->columns.end; ++x) {
      const int8_t* restrict from = p->in + image + (y * p->shape.in_width + x) * p->shape.channels;
      for (int64_t c = 0; c < width; ++c) sums[c] += from[c];
    }
  }
  int64_t wide[kChunk];
  for (int64_t c = 0; c < width; ++c) wide[c] = sums[c] * multiplier;
  const RefSpan out = {p->out, p->bits};
  narrow_sums(1, width, wide, p->shift, out, to, found, p->counts);
}

RefStatistics ref_average_pool(const RefAveragePool* p, int64_t begin, int64_t end) {
  const RefPoolShape* s = &p->shape;
  const int64_t windows = s->out_height * s->out_width;
  RefStatistics found = {0, 0};
  for (int64_t i = begin * windows; i < end * windows; ++i) {
    const int64_t image = i / windows * s->in_height * s->in_width * s->channels;
    const int64_t multiplier = p->multipliers[i % windows], to = i * s->channels;
    const Window window = window_of(s, i % windows);
    int64_t c = 0;
    for (; c + kChunk <= s->channels; c += kChunk) {
      average_chunk(kChunk, p, &window, image + c, multiplier, to + c, &found);
    }
    if (c == s->channels) continue;
    average_chunk(s->channels - c, p, &window, image + c, multiplier, to + c, &found);
  }
  return found;
}
