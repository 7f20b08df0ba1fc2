// Pooling by windows that do not overlap, and of whole images.
#include "reference/layers/pooling.h"

#include "reference/elements/elements.h"

// Channels are taken 16 at a time, which fit a vector: the last 16 of a pixel end with it, and may
// overlap those before. Fewer channels are taken with what follows them, in buffers: those results
// are written over, or lie in the padding. So rows are cut into pieces, which stay in the
// first-level cache, and several short rows make one.
enum { kLanes = 16, kPiece = 1024, kRoom = kPiece + kLanes, kFirstTap = 255 };

// The outputs [x, x + pixels) of `rows` rows of outputs, counted through all images.
typedef struct Piece {
  int64_t row, rows, x, pixels;
} Piece;

// The next piece of the rows up to `end`.
static bool next_piece(const RefMaxPoolShape* s, int64_t end, Piece* p) {
  const int64_t width = s->in_width / s->window;
  const int64_t most_pixels = kPiece / (s->window * s->channels);
  p->x += p->pixels;
  if (p->x >= width) {
    p->x = 0;
    p->row += p->rows;
  }
  p->pixels = ref_smaller(most_pixels, width - p->x);
  p->rows = ref_clamp(most_pixels / ref_larger(1, width), 1, end - p->row);
  return p->row < end && width > 0;
}

// Offset of output (row, x), and of the first input of its window.
static int64_t out_at(const RefMaxPoolShape* s, int64_t row, int64_t x) {
  return (row * (s->in_width / s->window) + x) * s->channels;
}
static int64_t in_at(const RefMaxPoolShape* s, int64_t row, int64_t x) {
  const int64_t height = s->in_height / s->window, n = row / height, y = row % height;
  return ((n * s->in_height + y * s->window) * s->in_width + x * s->window) * s->channels;
}

REF_LOOP void clear(int bytes, void* to, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) ref_store(to, bytes, i, 0);
}

// high[i] = the maximum of column i of `window` rows.
REF_LOOP void column_maxima(int64_t window, const int8_t* restrict in, int64_t row, int64_t width,
                            int8_t* restrict high) {
  ref_copy(high, in, width);
  for (int64_t ky = 1; ky < window; ++ky) {
    const int8_t* restrict from = in + ky * row;
    for (int64_t i = 0; i < width; ++i) high[i] = from[i] > high[i] ? from[i] : high[i];
  }
}

// Maxima of neighbouring columns.
REF_LOOP void neighbour_maxima(int64_t window, int64_t channels, const int8_t* restrict high,
                               int64_t count, int8_t* restrict best) {
  for (int64_t at = 0; at < count; at += channels, high += window * channels) {
    int8_t* restrict to = best + at;
    REF_NO_UNROLLING
    for (int64_t j = 0; j < kLanes; ++j) to[j] = high[j];
    for (int64_t kx = 1; kx < window; ++kx) {
      const int8_t* restrict from = high + kx * channels;
      REF_NO_UNROLLING
      for (int64_t j = 0; j < kLanes; ++j) to[j] = from[j] > to[j] ? from[j] : to[j];
    }
  }
}

REF_LOOP void max_pool_pieces(int64_t window, const RefMaxPoolShape* s, const int8_t* in,
                              int8_t* out, int64_t begin, int64_t end) {
  int8_t high[kRoom] = {0}, best[kRoom];
  const int64_t channels = s->channels, row = s->in_width * channels;
  for (Piece p = {begin, 0, 0, 0}; next_piece(s, end, &p);) {
    const int64_t width = window * p.pixels * channels, count = p.rows * p.pixels * channels;
    for (int64_t y = 0; y < p.rows; ++y) {
      column_maxima(window, in + in_at(s, p.row + y, p.x), row, width, high + y * width);
    }
    neighbour_maxima(window, channels, high, count, best);
    ref_copy(out + out_at(s, p.row, p.x), best, count);
  }
}

// A value and its tap as one number, whose maximum is the first maximum; and keys[i] = the largest
// of column i, each with the tap (ky, 0).
REF_LOOP void column_keys(int64_t window, const int8_t* restrict in, int64_t row, int64_t width,
                          int16_t* restrict keys) {
  for (int64_t i = 0; i < width; ++i) keys[i] = (int16_t)(in[i] * 256 + kFirstTap);
  for (int64_t ky = 1; ky < window; ++ky) {
    const int8_t* restrict from = in + ky * row;
    const int32_t first = (int32_t)(kFirstTap - ky * window);
    for (int64_t i = 0; i < width; ++i) {
      const int16_t key = (int16_t)(from[i] * 256 + first);
      keys[i] = key > keys[i] ? key : keys[i];
    }
  }
}

// The first maximum's tap of 16 windows, from the keys of their columns; each step to the right
// takes one from a key.
REF_LOOP void first_taps(int64_t window, int64_t channels, const int16_t* restrict keys,
                         int16_t* restrict best) {
  REF_NO_UNROLLING
  for (int64_t j = 0; j < kLanes; ++j) best[j] = keys[j];
  for (int64_t kx = 1; kx < window; ++kx) {
    const int16_t* restrict from = keys + kx * channels;
    REF_NO_UNROLLING
    for (int64_t j = 0; j < kLanes; ++j) {
      const int16_t key = (int16_t)(from[j] - kx);
      best[j] = key > best[j] ? key : best[j];
    }
  }
  REF_NO_UNROLLING
  for (int64_t j = 0; j < kLanes; ++j) best[j] = (int16_t)(kFirstTap - (best[j] & 255));
}

// A buffer of numbers of any width.
typedef union Numbers {
  int32_t words[kRoom];
  int16_t halves[kRoom];
  int8_t bytes[kRoom];
} Numbers;

// For each input column of the windows: the gradient of its output, and the first maximum's tap
// less kx, which is ky * window in the column of the maximum and no multiple of it in the others.
REF_LOOP void spread(int bytes, int64_t window, int64_t channels, const int16_t* restrict keys,
                     const void* restrict outer, int64_t pixels, void* restrict taps,
                     void* restrict grads) {
  int16_t first[kLanes];
  for (int64_t x = 0; x < pixels; ++x) {
    const int64_t at = x * channels, columns = at * window;
    first_taps(window, channels, keys + columns, first);
    for (int64_t kx = 0; kx < window; ++kx) {
      const int64_t to = columns + kx * channels;
      REF_NO_UNROLLING
      for (int64_t j = 0; j < kLanes; ++j) {
        ref_store(taps, bytes, to + j, (int16_t)(first[j] - kx));
        ref_store(grads, bytes, to + j, ref_load32(outer, bytes, at + j));
      }
    }
  }
}

// Gives the gradients to the maxima of one row of windows.
REF_LOOP void choose(int bytes, int64_t window, int64_t row, const void* restrict taps,
                     const void* restrict grads, int64_t from, int64_t width,
                     void* restrict grad_in, int64_t to) {
  for (int64_t ky = 0; ky < window; ++ky) {
    const int32_t here = ref_cut((int32_t)(ky * window), bytes);
    for (int64_t i = 0; i < width; ++i) {
      const bool is_here = ref_load32(taps, bytes, from + i) == here;
      ref_store(grad_in, bytes, to + ky * row + i,
                ref_if(is_here, bytes, ref_load32(grads, bytes, from + i)));
    }
  }
}

REF_LOOP void gradient_pieces(int bytes, int64_t window, const RefMaxPoolShape* s, const int8_t* in,
                              const void* restrict grad_out, void* restrict grad_in, int64_t begin,
                              int64_t end) {
  int16_t keys[kRoom] = {0};
  Numbers outer = {{0}}, grads, taps;
  const int64_t channels = s->channels, row = s->in_width * channels;
  for (Piece p = {begin, 0, 0, 0}; next_piece(s, end, &p);) {
    const int64_t width = window * p.pixels * channels, pixels = p.rows * p.pixels;
    const char* outer_at = (const char*)grad_out + out_at(s, p.row, p.x) * bytes;
    for (int64_t y = 0; y < p.rows; ++y) {
      column_keys(window, in + in_at(s, p.row + y, p.x), row, width, keys + y * width);
    }
    ref_copy(&outer, outer_at, pixels * channels * bytes);
    spread(bytes, window, channels, keys, &outer, pixels, &taps, &grads);
    for (int64_t y = 0; y < p.rows; ++y) {
      choose(bytes, window, row, &taps, &grads, y * width, width, grad_in,
             in_at(s, p.row + y, p.x));
    }
  }
}

// 16 channels from `corner` of the input and `at` of the outputs on.
REF_LOOP void max_pool_lanes(int64_t window, int64_t channels, int64_t row,
                             const int8_t* restrict in, int8_t* restrict out) {
  int8_t best[kLanes];
  for (int64_t j = 0; j < kLanes; ++j) best[j] = in[j];
  for (int64_t tap = 1; tap < window * window; ++tap) {
    const int8_t* from = in + tap / window * row + tap % window * channels;
    for (int64_t j = 0; j < kLanes; ++j) best[j] = from[j] > best[j] ? from[j] : best[j];
  }
  for (int64_t j = 0; j < kLanes; ++j) out[j] = best[j];
}

REF_LOOP void gradient_lanes(int bytes, int64_t window, int64_t channels, int64_t row,
                             const int8_t* restrict in, const void* restrict grad_out, int64_t at,
                             void* restrict grad_in, int64_t corner) {
  int8_t best[kLanes], which[kLanes];
  REF_NO_UNROLLING
  for (int64_t j = 0; j < kLanes; ++j) {
    best[j] = in[corner + j];
    which[j] = 0;
  }
  for (int64_t tap = 1; tap < window * window; ++tap) {
    const int8_t* from = in + corner + tap / window * row + tap % window * channels;
    const int8_t here = (int8_t)tap;
    REF_NO_UNROLLING
    for (int64_t j = 0; j < kLanes; ++j) {
      which[j] = from[j] > best[j] ? here : which[j];
      best[j] = from[j] > best[j] ? from[j] : best[j];
    }
  }
  for (int64_t tap = 0; tap < window * window; ++tap) {
    const int64_t to = corner + tap / window * row + tap % window * channels;
    const int8_t here = (int8_t)tap;
    REF_NO_UNROLLING
    for (int64_t j = 0; j < kLanes; ++j) {
      ref_store(grad_in, bytes, to + j,
                ref_if(which[j] == here, bytes, ref_load32(grad_out, bytes, at + j)));
    }
  }
}

REF_LOOP void max_pool_pixels(int64_t window, const RefMaxPoolShape* s, const int8_t* in,
                              int8_t* out, int64_t begin, int64_t end) {
  const int64_t channels = s->channels, last = channels - kLanes, row = s->in_width * channels;
  const int64_t pixels = s->in_width / window;
  for (int64_t y = begin; y < end; ++y) {
    const int8_t* from = in + in_at(s, y, 0);
    int8_t* to = out + out_at(s, y, 0);
    for (int64_t x = 0; x < pixels; ++x, from += window * channels, to += channels) {
      for (int64_t c = 0; c < last; c += kLanes) {
        max_pool_lanes(window, channels, row, from + c, to + c);
      }
      max_pool_lanes(window, channels, row, from + last, to + last);
    }
  }
}

REF_LOOP void gradient_pixels(int bytes, int64_t window, const RefMaxPoolShape* s, const int8_t* in,
                              const void* grad_out, void* grad_in, int64_t begin, int64_t end) {
  const int64_t channels = s->channels, last = channels - kLanes, row = s->in_width * channels;
  const int64_t pixels = s->in_width / window;
  for (int64_t y = begin; y < end; ++y) {
    int64_t corner = in_at(s, y, 0), at = out_at(s, y, 0);
    for (int64_t x = 0; x < pixels; ++x, corner += window * channels, at += channels) {
      for (int64_t c = 0; c < last; c += kLanes) {
        gradient_lanes(bytes, window, channels, row, in, grad_out, at + c, grad_in, corner + c);
      }
      gradient_lanes(bytes, window, channels, row, in, grad_out, at + last, grad_in, corner + last);
    }
  }
}

// The rows of outputs [begin, end), with the window as a constant or not.
REF_LOOP void max_pool_rows(int64_t window, const RefMaxPoolShape* s, const int8_t* in, int8_t* out,
                            int64_t begin, int64_t end) {
  if (s->channels >= kLanes) {
    max_pool_pixels(window, s, in, out, begin, end);
  } else {
    max_pool_pieces(window, s, in, out, begin, end);
  }
}

void ref_max_pool(const RefMaxPoolShape* s, const int8_t* in, int8_t* out, int64_t begin,
                  int64_t end) {
  const int64_t height = s->in_height / s->window;
  if (s->window == 2) {
    max_pool_rows(2, s, in, out, begin * height, end * height);
  } else {
    max_pool_rows(s->window, s, in, out, begin * height, end * height);
  }
}

// Zeroes the cells that no window covers.
REF_LOOP void clear_remainder(int bytes, const RefMaxPoolShape* s, void* grad_in, int64_t n) {
  const int64_t row = s->in_width * s->channels, image = n * s->in_height * row;
  const int64_t covered = s->in_width / s->window * s->window * s->channels;
  const int64_t rows = s->in_height / s->window * s->window;
  for (int64_t y = 0; y < rows; ++y) {
    clear(bytes, grad_in, image + y * row + covered, image + (y + 1) * row);
  }
  clear(bytes, grad_in, image + rows * row, image + s->in_height * row);
}

REF_LOOP void gradient_rows(int bytes, int64_t window, const RefMaxPoolShape* s, const int8_t* in,
                            const void* grad_out, void* grad_in, int64_t begin, int64_t end) {
  if (s->channels >= kLanes) {
    gradient_pixels(bytes, window, s, in, grad_out, grad_in, begin, end);
  } else {
    gradient_pieces(bytes, window, s, in, grad_out, grad_in, begin, end);
  }
}

void ref_max_pool_gradient(const RefMaxPoolShape* s, const int8_t* in, RefConstSpan grad_out,
                           RefSpan grad_in, int64_t begin, int64_t end) {
  const int64_t height = s->in_height / s->window, first = begin * height, last = end * height;
  REF_WITH_BYTES(grad_out.bits, bytes, {
    for (int64_t n = begin; n < end; ++n) clear_remainder(bytes, s, grad_in.data, n);
    if (s->window == 2) {
      gradient_rows(bytes, 2, s, in, grad_out.data, grad_in.data, first, last);
    } else {
      gradient_rows(bytes, s->window, s, in, grad_out.data, grad_in.data, first, last);
    }
  });
}

void ref_image_sums(const int8_t* in, int64_t pixels, int64_t channels, int32_t* sums,
                    int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    int32_t* restrict to = sums + n * channels;
    for (int64_t c = 0; c < channels; ++c) to[c] = 0;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const int8_t* restrict from = in + (n * pixels + pixel) * channels;
      for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
    }
  }
}

void ref_broadcast(RefConstSpan in, int64_t pixels, int64_t channels, RefSpan out, int64_t begin,
                   int64_t end) {
  const int64_t bytes = channels * (in.bits <= 8 ? 1 : in.bits <= 16 ? 2 : 4);
  char* to = (char*)out.data + begin * pixels * bytes;
  for (int64_t n = begin; n < end; ++n) {
    const char* from = (const char*)in.data + n * bytes;
    for (int64_t pixel = 0; pixel < pixels; ++pixel, to += bytes) ref_copy(to, from, bytes);
  }
}
