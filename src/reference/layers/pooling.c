// Pooling by windows that do not overlap, and of whole images.
#include "reference/layers/pooling.h"

#include "reference/elements/elements.h"

// Channels are taken 16 at a time, which fit a vector: the last 16 of a pixel end with it, and may
// overlap those before. Fewer channels are taken with what follows them, in buffers: those results
// are written over, or lie in the padding. So rows are cut into pieces, which stay in the
// first-level cache.
enum { kLanes = 16, kPiece = 1024, kRoom = kPiece + kLanes };

// The outputs [x, x + pixels) of row y of image n.
typedef struct Piece {
  int64_t n, y, x, pixels;
} Piece;

static int64_t out_at(const RefMaxPoolShape* s, const Piece* p) {
  const int64_t height = s->in_height / s->window, width = s->in_width / s->window;
  return ((p->n * height + p->y) * width + p->x) * s->channels;
}
static int64_t in_at(const RefMaxPoolShape* s, const Piece* p) {
  return ((p->n * s->in_height + p->y * s->window) * s->in_width + p->x * s->window) * s->channels;
}

REF_LOOP void clear(int bytes, void* to, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) ref_store(to, bytes, i, 0);
}

// Element i of the maxima of columns, element by element along the rows of the input: as bytes, or
// as keys, a value and its tap as one number of 16 bits (256 values, 255 - tap), whose maximum is
// the first maximum.
enum { kFirstTap = 255 };
REF_LOOP void column_maxima(int bytes, int64_t window, const int8_t* restrict in, int64_t row,
                            int64_t width, void* restrict high) {
  for (int64_t i = 0; i < width; ++i) {
    ref_store(high, bytes, i, bytes == 2 ? in[i] * 256 + kFirstTap : in[i]);
  }
  clear(bytes, high, width, width + kLanes);
  for (int64_t ky = 1; ky < window; ++ky) {
    const int8_t* restrict from = in + ky * row;
    const int32_t tap = (int32_t)(kFirstTap - ky * window);
    for (int64_t i = 0; i < width; ++i) {
      const int16_t n = (int16_t)(bytes == 2 ? from[i] * 256 + tap : from[i]);
      const int32_t so_far = ref_load32(high, bytes, i);
      ref_store(high, bytes, i, n > so_far ? n : so_far);
    }
  }
}

// Maxima of neighbouring pixels; each step to the right takes one from a key.
REF_LOOP void neighbour_maxima(int bytes, int64_t window, int64_t channels, const void* high,
                               int64_t pixels, void* restrict best) {
  for (int64_t x = 0; x < pixels; ++x) {
    const int64_t tap = x * window * channels, to = x * channels;
    REF_NO_UNROLLING
    for (int64_t j = 0; j < kLanes; ++j) {
      ref_store(best, bytes, to + j, ref_load32(high, bytes, tap + j));
    }
    for (int64_t kx = 1; kx < window; ++kx) {
      const int16_t less = (int16_t)(bytes == 2 ? kx : 0);
      REF_NO_UNROLLING
      for (int64_t j = 0; j < kLanes; ++j) {
        const int16_t n = (int16_t)(ref_load32(high, bytes, tap + kx * channels + j) - less);
        const int32_t so_far = ref_load32(best, bytes, to + j);
        ref_store(best, bytes, to + j, n > so_far ? n : so_far);
      }
    }
  }
}

REF_LOOP void max_pool_piece(int64_t window, const RefMaxPoolShape* s, const Piece* p,
                             const int8_t* in, int8_t* out) {
  int8_t high[kRoom], best[kRoom];
  const int64_t row = s->in_width * s->channels, count = p->pixels * s->channels;
  column_maxima(1, window, in + in_at(s, p), row, window * count, high);
  neighbour_maxima(1, window, s->channels, high, p->pixels, best);
  int8_t* restrict to = out + out_at(s, p);
  for (int64_t i = 0; i < count; ++i) to[i] = best[i];
}

// A buffer of numbers of any width.
typedef union Numbers {
  int32_t words[kRoom];
  int16_t halves[kRoom];
  int8_t bytes[kRoom];
} Numbers;

// For each input column of the windows: the gradient of its output, and the first maximum's tap
// less kx, which is ky * window in the column of the maximum and no multiple of it in the others.
REF_LOOP void spread(int bytes, int64_t window, int64_t channels, const int16_t* restrict best,
                     const void* restrict outer, int64_t pixels, void* restrict taps,
                     void* restrict grads) {
  for (int64_t x = 0; x < pixels; ++x) {
    for (int64_t kx = 0; kx < window; ++kx) {
      const int64_t at = x * channels, to = (x * window + kx) * channels;
      const int16_t first = (int16_t)(kFirstTap - kx);
      REF_NO_UNROLLING
      for (int64_t j = 0; j < kLanes; ++j) {
        ref_store(taps, bytes, to + j, (int16_t)(first - (best[at + j] & 255)));
        ref_store(grads, bytes, to + j, ref_load32(outer, bytes, at + j));
      }
    }
  }
}

REF_LOOP void gradient_piece(int bytes, int64_t window, const RefMaxPoolShape* s, const Piece* p,
                             const int8_t* in, const void* grad_out, void* restrict grad_in) {
  int16_t high[kRoom], best[kRoom];
  Numbers outer, grads, taps;
  const int64_t channels = s->channels, row = s->in_width * channels, corner = in_at(s, p);
  const int64_t count = p->pixels * channels, width = window * count, from = out_at(s, p);
  column_maxima(2, window, in + corner, row, width, high);
  neighbour_maxima(2, window, channels, high, p->pixels, best);
  for (int64_t i = 0; i < count; ++i) {
    ref_store(&outer, bytes, i, ref_load32(grad_out, bytes, from + i));
  }
  clear(bytes, &outer, count, count + kLanes);
  spread(bytes, window, channels, best, &outer, p->pixels, &taps, &grads);
  for (int64_t ky = 0; ky < window; ++ky) {
    const int64_t to = corner + ky * row;
    const int32_t here = (int32_t)(ky * window);
    for (int64_t i = 0; i < width; ++i) {
      const int32_t grad = ref_load32(&grads, bytes, i);
      ref_store(grad_in, bytes, to + i, ref_load32(&taps, bytes, i) == here ? grad : 0);
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

REF_LOOP void max_pool_pixels(int64_t window, const RefMaxPoolShape* s, const Piece* p,
                              const int8_t* in, int8_t* out) {
  const int64_t channels = s->channels, last = channels - kLanes, from = in_at(s, p);
  const int64_t row = s->in_width * channels, to = out_at(s, p);
  for (int64_t x = 0; x < p->pixels; ++x) {
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t first = ref_smaller(c, last);
      max_pool_lanes(window, channels, row, in + from + x * window * channels + first,
                     out + to + x * channels + first);
    }
  }
}

REF_LOOP void gradient_pixels(int bytes, int64_t window, const RefMaxPoolShape* s, const Piece* p,
                              const int8_t* in, const void* grad_out, void* grad_in) {
  const int64_t channels = s->channels, last = channels - kLanes, corner = in_at(s, p);
  const int64_t row = s->in_width * channels, at = out_at(s, p);
  for (int64_t x = 0; x < p->pixels; ++x) {
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t first = ref_smaller(c, last);
      gradient_lanes(bytes, window, channels, row, in, grad_out, at + x * channels + first, grad_in,
                     corner + x * window * channels + first);
    }
  }
}

// The next piece of the images up to `end`: at most a row.
static bool next_piece(const RefMaxPoolShape* s, int64_t end, Piece* p) {
  const int64_t height = s->in_height / s->window, width = s->in_width / s->window;
  const int64_t most = ref_larger(1, kPiece / (s->window * s->channels));
  p->x += p->pixels;
  if (p->x >= width) {
    p->x = 0;
    ++p->y;
  }
  if (p->y >= height) {
    p->y = 0;
    ++p->n;
  }
  p->pixels = ref_smaller(most, width - p->x);
  return p->n < end && width > 0 && height > 0;
}

static Piece before_first(int64_t begin) {
  const Piece piece = {begin, -1, INT64_MAX / 2, 0};
  return piece;
}

void ref_max_pool(const RefMaxPoolShape* s, const int8_t* in, int8_t* out, int64_t begin,
                  int64_t end) {
  for (Piece p = before_first(begin); next_piece(s, end, &p);) {
    if (s->channels >= kLanes && s->window == 2) {
      max_pool_pixels(2, s, &p, in, out);
    } else if (s->channels >= kLanes) {
      max_pool_pixels(s->window, s, &p, in, out);
    } else if (s->window == 2) {
      max_pool_piece(2, s, &p, in, out);
    } else {
      max_pool_piece(s->window, s, &p, in, out);
    }
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

void ref_max_pool_gradient(const RefMaxPoolShape* s, const int8_t* in, RefConstSpan grad_out,
                           RefSpan grad_in, int64_t begin, int64_t end) {
  REF_WITH_BYTES(grad_out.bits, bytes, {
    for (int64_t n = begin; n < end; ++n) clear_remainder(bytes, s, grad_in.data, n);
    for (Piece p = before_first(begin); next_piece(s, end, &p);) {
      if (s->channels >= kLanes && s->window == 2) {
        gradient_pixels(bytes, 2, s, &p, in, grad_out.data, grad_in.data);
      } else if (s->channels >= kLanes) {
        gradient_pixels(bytes, s->window, s, &p, in, grad_out.data, grad_in.data);
      } else if (s->window == 2) {
        gradient_piece(bytes, 2, s, &p, in, grad_out.data, grad_in.data);
      } else {
        gradient_piece(bytes, s->window, s, &p, in, grad_out.data, grad_in.data);
      }
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

REF_LOOP void broadcast(int bytes, const void* restrict in, int64_t pixels, int64_t channels,
                        void* restrict out, int64_t n) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const int64_t to = (n * pixels + pixel) * channels, from = n * channels;
    for (int64_t c = 0; c < channels; ++c) {
      ref_store(out, bytes, to + c, ref_load(in, bytes, from + c));
    }
  }
}

void ref_broadcast(RefConstSpan in, int64_t pixels, int64_t channels, RefSpan out, int64_t begin,
                   int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    REF_WITH_BYTES(in.bits, bytes, broadcast(bytes, in.data, pixels, channels, out.data, n));
  }
}
