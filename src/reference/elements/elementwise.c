// Requantising, normalising, ReLU, and sums over rows.
#include "reference/elements/elementwise.h"

#include "reference/elements/elements.h"

// Elements whose clipped ones are counted in 32 bits.
enum { kBlock = 1 << 20 };

static RefStatistics maximum_of(const int32_t* wide, int64_t begin, int64_t end) {
  RefRange32 range = {0, 0};
  for (int64_t i = begin; i < end; ++i) ref_include32(&range, wide[i]);
  return ref_statistics(range.low, range.high, 0);
}

RefStatistics ref_requantise(const RefRequantise* args, int64_t begin, int64_t end) {
  const int32_t* restrict wide = args->wide;
  int8_t* restrict out = args->out;
  if (out == NULL) return maximum_of(wide, begin, end);
  RefStatistics found = {0, 0};
  const int32_t limit = (int32_t)ref_mantissa_limit(args->bits);
  const int shift = args->shift;
  if (shift < 0 || shift > 30) {
    for (int64_t i = begin; i < end; ++i) {
      found.saturated += ref_store_narrow(out, 1, i, ref_rescale_rne(wide[i], shift), limit);
    }
    return found;
  }
  // rne in 32 bits: the half never overflows because it is added after one bit is shifted out.
  const int32_t half = shift == 0 ? 0 : ((int32_t)1 << (shift - 1)) - 1;
  const int32_t odd_mask = shift == 0 ? 0 : 1;
  for (int64_t block = begin; block < end; block += kBlock) {
    const int64_t stop = ref_smaller(end, block + kBlock);
    int32_t clipped = 0;
    for (int64_t i = block; i < stop; ++i) {
      const int32_t remainder = wide[i] & (half * 2 + odd_mask);
      const int32_t floor = wide[i] >> shift;
      const int32_t rounded = floor + ((remainder + half + (floor & odd_mask)) >> shift);
      clipped += ref_store_narrow32(out, 1, i, rounded, limit);
    }
    found.saturated += clipped;
  }
  return found;
}

static RefStatistics normalise_elements(const RefNormaliseInput* args, int64_t begin_row,
                                        int64_t end_row) {
  RefStatistics found = {0, 0};
  const int64_t limit = ref_mantissa_limit(args->bits);
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < args->channels; ++c) {
      const int64_t i = row * args->channels + c, wide = (int64_t)args->pixels[i] - args->mean[c];
      const int64_t rounded = args->out == NULL ? 0 : ref_rescale_rne(wide, args->shift);
      const int64_t narrow = ref_saturate(rounded, limit);
      ref_include(&found, wide, rounded, narrow);
      if (args->out != NULL) args->out[i] = (int8_t)narrow;
    }
  }
  return found;
}

// Channel parameters are repeated to rows of at least this many elements, so that narrow images
// still fill vectors.
enum { kPattern = 1024 };

// Means of at most 2^24, right shifts, few channels: the case of pixels in practice.
static RefStatistics normalise_pattern(const RefNormaliseInput* args, int64_t begin_row,
                                       int64_t end_row) {
  int32_t means[kPattern];
  const int64_t width = kPattern / args->channels * args->channels;
  for (int64_t i = 0; i < width; ++i) means[i] = args->mean[i % args->channels];
  const RefRound32 round = ref_round32(args->shift > 30 ? 30 : args->shift);
  const int32_t limit = (int32_t)ref_mantissa_limit(args->bits);
  const int64_t end = end_row * args->channels;
  RefRange32 range = {0, 0};
  int64_t saturated = 0;
  for (int64_t first = begin_row * args->channels; first < end; first += width) {
    const int64_t count = ref_smaller(width, end - first);
    const uint8_t* restrict pixels = args->pixels + first;
    for (int64_t i = 0; i < count; ++i) ref_include32(&range, pixels[i] - means[i]);
    if (args->out == NULL) continue;
    int8_t* restrict out = args->out + first;
    int32_t clipped = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t rounded = ref_rounded32(&round, pixels[i] - means[i]);
      const int32_t narrow = rounded < -limit ? -limit : rounded > limit ? limit : rounded;
      clipped += narrow != rounded;
      out[i] = (int8_t)narrow;
    }
    saturated += clipped;
  }
  return ref_statistics(range.low, range.high, saturated);
}

RefStatistics ref_normalise_input(const RefNormaliseInput* args, int64_t begin_row,
                                  int64_t end_row) {
  bool simple = args->channels <= 16 && args->shift >= 0;
  for (int64_t c = 0; simple && c < args->channels; ++c) {
    simple = ref_magnitude(args->mean[c]) <= (uint64_t)1 << 24;
  }
  return simple ? normalise_pattern(args, begin_row, end_row)
                : normalise_elements(args, begin_row, end_row);
}

void ref_relu(const int8_t* in, int8_t* out, int64_t begin, int64_t end) {
  const int8_t* restrict from = in;
  int8_t* restrict to = out;
  for (int64_t i = begin; i < end; ++i) to[i] = from[i] > 0 ? from[i] : 0;
}

REF_LOOP void relu_gradient(int bytes, const int8_t* restrict output, const void* restrict grad_out,
                            void* restrict grad_in, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    ref_store(grad_in, bytes, i, ref_if(output[i] > 0, bytes, ref_load32(grad_out, bytes, i)));
  }
}

void ref_relu_gradient(const int8_t* output, RefConstSpan grad_out, RefSpan grad_in, int64_t begin,
                       int64_t end) {
  REF_WITH_BYTES(grad_out.bits, bytes,
                 relu_gradient(bytes, output, grad_out.data, grad_in.data, begin, end));
}

// Channels are processed in strips of this many, whose sums stay in registers.
enum { kStrip = 16 };

// Sums of one strip, or of their magnitudes. 65,536 mantissas of 16 bits fit int32, 2^32 of 32 bits
// int64.
REF_LOOP void sum_strip(int bytes, bool magnitudes, const void* in, int64_t channels, int64_t first,
                        int64_t width, int64_t begin_row, int64_t end_row, int64_t* sums) {
  const int64_t block_rows = 1 << 16;
  for (int64_t block = begin_row; block < end_row; block += block_rows) {
    const int64_t stop = ref_smaller(end_row, block + block_rows);
    int32_t narrow[kStrip] = {0};
    int64_t wide[kStrip] = {0};
    for (int64_t row = block; row < stop; ++row) {
      for (int64_t c = 0; c < width; ++c) {
        const int64_t n = ref_load(in, bytes, row * channels + first + c);
        const int64_t term = magnitudes && n < 0 ? -n : n;
        if (bytes <= 2) {
          narrow[c] += (int32_t)term;
        } else {
          wide[c] += term;
        }
      }
    }
    for (int64_t c = 0; c < width; ++c) sums[first + c] += bytes <= 2 ? narrow[c] : wide[c];
  }
}

REF_LOOP void sum_of_rows(int bytes, bool magnitudes, const void* in, int64_t channels,
                          int64_t begin_row, int64_t end_row, int64_t* sums) {
  int64_t first = 0;
  for (; first + kStrip <= channels; first += kStrip) {
    sum_strip(bytes, magnitudes, in, channels, first, kStrip, begin_row, end_row, sums);
  }
  if (first == channels) return;
  sum_strip(bytes, magnitudes, in, channels, first, channels - first, begin_row, end_row, sums);
}

void ref_sum_rows(RefConstSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                  int64_t* sums) {
  REF_WITH_BYTES(in.bits, bytes,
                 sum_of_rows(bytes, false, in.data, channels, begin_row, end_row, sums));
}

void ref_sum_magnitudes(RefConstSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                        int64_t* sums) {
  REF_WITH_BYTES(in.bits, bytes,
                 sum_of_rows(bytes, true, in.data, channels, begin_row, end_row, sums));
}

void ref_channel_maxima(const int32_t* wide, int64_t channels, int64_t begin_row, int64_t end_row,
                        uint32_t* maxima) {
  uint32_t* restrict to = maxima;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int32_t* restrict from = wide + row * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const uint32_t bits = (uint32_t)from[c], size = from[c] < 0 ? 0 - bits : bits;
      to[c] = size > to[c] ? size : to[c];
    }
  }
}

// The remainder, half a unit and a tie's one are below 2^32 together: no sum overflows.
int64_t ref_requantise_channels(const RefRequantiseChannels* args, int64_t begin_row,
                                int64_t end_row) {
  const int64_t channels = args->channels;
  const int32_t limit = (int32_t)ref_mantissa_limit(args->bits);
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int32_t* restrict from = args->wide + row * channels;
    int8_t* restrict to = args->out + row * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const uint32_t shift = (uint32_t)args->shifts[c], mask = ((uint32_t)1 << shift) - 1;
      const int32_t floor = from[c] >> shift;
      const uint32_t tie = shift == 0 ? 0 : (uint32_t)floor & 1;
      const uint32_t rest = ((uint32_t)from[c] & mask) + (mask >> 1) + tie;
      const int32_t rounded = floor + (int32_t)(rest >> shift);
      saturated += ref_store_narrow32(to, 1, c, rounded, limit);
    }
  }
  return saturated;
}

REF_LOOP void shift_rows(int bytes, const RefShiftChannels* args, int64_t begin_row,
                         int64_t end_row) {
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < args->channels; ++c) {
      const int64_t i = row * args->channels + c;
      const int32_t n = (int32_t)ref_load(args->in.data, bytes, i), shift = args->shifts[c];
      const int32_t below_half = (((int32_t)1 << shift) - 1) >> 1;
      ref_store(args->out.data, bytes, i,
                (n + below_half + ((n >> shift) & (shift != 0))) >> shift);
    }
  }
}

void ref_shift_channels(const RefShiftChannels* args, int64_t begin_row, int64_t end_row) {
  REF_WITH_SHORT_BYTES(args->in.bits, bytes, shift_rows(bytes, args, begin_row, end_row));
}
