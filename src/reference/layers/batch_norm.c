#include "reference/layers/batch_norm.h"

#include "reference/elements/elements.h"

// Channels are processed in strips of this many, whose sums stay in registers.
enum { kStrip = 16 };

// Sums and extremes of the `width` channels from `first` on, added to `sums` at index `to`.
REF_LOOP void sum_strip(int bytes, int64_t width, const void* in, int64_t channels, int64_t first,
                        int64_t begin_row, int64_t end_row, const RefChannelSums* sums,
                        int64_t to) {
  const int64_t rows = 65535;  // so many sums of 16 bits, or squares of 8, fit int32
  for (int64_t block = begin_row; block < end_row; block += rows) {
    const int64_t stop = ref_smaller(end_row, block + rows);
    int32_t sum[kStrip] = {0}, narrow[kStrip] = {0}, low[kStrip], high[kStrip];
    int64_t wide[kStrip] = {0};
    for (int64_t c = 0; c < kStrip; ++c) {
      low[c] = INT16_MAX;
      high[c] = INT16_MIN;
    }
    for (int64_t row = block; row < stop; ++row) {
      REF_NO_UNROLLING
      for (int64_t c = 0; c < width; ++c) {
        const int32_t n = ref_load32(in, bytes, row * channels + first + c);
        sum[c] += n;
        if (bytes == 1) {
          narrow[c] += n * n;
        } else {
          wide[c] += n * n;
        }
        low[c] = n < low[c] ? n : low[c];
        high[c] = n > high[c] ? n : high[c];
      }
    }
    for (int64_t c = 0; c < width; ++c) {
      sums->sum[to + c] += sum[c];
      sums->sum_squares[to + c] += bytes == 1 ? narrow[c] : wide[c];
      sums->minimum[to + c] = low[c] < sums->minimum[to + c] ? low[c] : sums->minimum[to + c];
      sums->maximum[to + c] = high[c] > sums->maximum[to + c] ? high[c] : sums->maximum[to + c];
    }
  }
}

REF_LOOP void sum_channels(int bytes, int64_t width, const void* in, int64_t channels,
                           int64_t first, int64_t begin_row, int64_t end_row,
                           const RefChannelSums* sums, int64_t to) {
  if (width == kStrip) {
    sum_strip(bytes, kStrip, in, channels, first, begin_row, end_row, sums, to);
  } else {
    sum_strip(bytes, width, in, channels, first, begin_row, end_row, sums, to);
  }
}

REF_LOOP void sums_of_strip(RefConstSpan in, int64_t channels, int64_t first, int64_t begin_row,
                            int64_t end_row, const RefChannelSums* sums, int64_t to) {
  const int64_t width = ref_smaller(kStrip, channels - first);
  REF_WITH_SHORT_BYTES(
      in.bits, bytes,
      sum_channels(bytes, width, in.data, channels, first, begin_row, end_row, sums, to));
}

void ref_channel_sums(RefConstSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                      const RefChannelSums* sums) {
  for (int64_t first = 0; first < channels; first += kStrip) {
    sums_of_strip(in, channels, first, begin_row, end_row, sums, first);
  }
}

// in * multiplier + offset is monotone in `in`, so the extremes of a channel decide its maximum.
static RefStatistics scale_offset_maximum(const RefScaleOffset* args, int64_t begin_row,
                                          int64_t end_row) {
  const bool drops = args->relu || args->negative_shift >= 0;  // negative values
  RefStatistics found = {0, 0};
  if (begin_row == end_row) return found;
  for (int64_t first = 0; first < args->channels; first += kStrip) {
    int64_t sum[kStrip] = {0}, squares[kStrip] = {0};
    int32_t extremes[2][kStrip];
    for (int64_t c = 0; c < kStrip; ++c) {
      extremes[0][c] = INT32_MAX;
      extremes[1][c] = INT32_MIN;
    }
    const RefChannelSums sums = {sum, squares, extremes[0], extremes[1]};
    sums_of_strip(args->in, args->channels, first, begin_row, end_row, &sums, 0);
    for (int64_t i = 0; i < 2 * ref_smaller(kStrip, args->channels - first); ++i) {
      const int64_t c = first + i / 2;
      const int64_t affine =
          (int64_t)extremes[i % 2][i / 2] * args->multiplier[c] + args->offset[c];
      ref_include(&found, drops && affine < 0 ? 0 : affine, 0, 0);
    }
  }
  return found;
}

// |affine| < 2^46, shifted left by at most 15.
REF_LOOP RefStatistics scale_offset_rows(int bytes, int out_bytes, bool coarse,
                                         const RefScaleOffset* args, int64_t begin_row,
                                         int64_t end_row) {
  const int64_t floor = args->relu ? 0 : INT64_MIN, limit = ref_mantissa_limit(args->out.bits);
  const int64_t up = (int64_t)1 << (args->shift < 0 ? ref_smaller(-args->shift, 15) : 0);
  const RefRound64 round = ref_round64(args->shift);
  const int fewer = coarse ? args->negative_shift : 0;
  const int64_t half = ((int64_t)1 << fewer) / 2, channels = args->channels;
  const int32_t* restrict multiplier = args->multiplier;
  const int64_t* restrict offset = args->offset;
  const void* restrict in = args->in.data;
  void* restrict out = args->out.data;
  RefStatistics found = {0, 0};
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t i = row * channels + c;
      const int64_t affine = ref_load(in, bytes, i) * multiplier[c] + offset[c];
      const int64_t rounded = ref_rounded64(&round, (affine < floor ? floor : affine) * up);
      if (coarse) {
        const int64_t below = ref_smaller(rounded, 0), above = rounded - below;
        found.saturated += above > limit;
        ref_store(out, out_bytes, i,
                  ref_smaller(above, limit) + ref_larger((below + half) >> fewer, -limit));
      } else {
        found.saturated += ref_store_narrow(out, out_bytes, i, rounded, limit);
      }
    }
  }
  return found;
}

RefStatistics ref_scale_offset(const RefScaleOffset* args, int64_t begin_row, int64_t end_row) {
  if (args->out.data == NULL) return scale_offset_maximum(args, begin_row, end_row);
  REF_WITH_SHORT_BYTES(
      args->in.bits, bytes, REF_WITH_SHORT_BYTES(args->out.bits, out_bytes, {
        return args->negative_shift >= 0
                   ? scale_offset_rows(bytes, out_bytes, true, args, begin_row, end_row)
                   : scale_offset_rows(bytes, out_bytes, false, args, begin_row, end_row);
      }));
}

// Runs the statement with the widths of gradient, input and output (0: there is none, and all
// gradients pass).
#define WITH_OPERANDS(args, statement)                                                           \
  REF_WITH_BYTES((args)->grad_out.bits, bytes, REF_WITH_SHORT_BYTES((args)->in.bits, in_bytes, { \
                   if ((args)->output.data == NULL) {                                            \
                     enum { mask_bytes = 0 };                                                    \
                     statement;                                                                  \
                   } else {                                                                      \
                     REF_WITH_SHORT_BYTES((args)->output.bits, mask_bytes, statement);           \
                   }                                                                             \
                 }))

// 256 products of 16 and 8 bits fit int32.
REF_LOOP void gradient_strip(int bytes, int in_bytes, int mask_bytes, int64_t width,
                             const RefBatchNormGradient* args, int64_t first, int64_t begin_row,
                             int64_t end_row, int64_t* sum_grad, int64_t* sum_grad_in) {
  const void* restrict output = args->output.data;
  for (int64_t block = begin_row; block < end_row; block += 256) {
    const int64_t stop = ref_smaller(end_row, block + 256);
    int32_t grads[kStrip] = {0}, products[kStrip] = {0};
    int64_t wide_grads[kStrip] = {0}, wide_products[kStrip] = {0};
    for (int64_t row = block; row < stop; ++row) {
      REF_NO_UNROLLING
      for (int64_t c = 0; c < width; ++c) {
        const int64_t i = row * args->channels + first + c;
        const bool passes = mask_bytes == 0 || ref_load32(output, mask_bytes, i) > 0;
        const int32_t grad = ref_if(passes, bytes, ref_load32(args->grad_out.data, bytes, i));
        const int32_t in = ref_load32(args->in.data, in_bytes, i);
        if (bytes <= 2) {
          grads[c] += grad;
        } else {
          wide_grads[c] += grad;
        }
        if (bytes <= 2 && in_bytes == 1) {
          products[c] += grad * in;
        } else {
          wide_products[c] += (int64_t)grad * in;
        }
      }
    }
    for (int64_t c = 0; c < width; ++c) {
      sum_grad[first + c] += bytes <= 2 ? grads[c] : wide_grads[c];
      sum_grad_in[first + c] += bytes <= 2 && in_bytes == 1 ? products[c] : wide_products[c];
    }
  }
}

REF_LOOP void gradient_sums(int bytes, int in_bytes, int mask_bytes,
                            const RefBatchNormGradient* args, int64_t begin_row, int64_t end_row,
                            int64_t* sum_grad, int64_t* sum_grad_in) {
  for (int64_t first = 0; first < args->channels; first += kStrip) {
    const int64_t width = ref_smaller(kStrip, args->channels - first);
    if (width == kStrip) {
      gradient_strip(bytes, in_bytes, mask_bytes, kStrip, args, first, begin_row, end_row, sum_grad,
                     sum_grad_in);
    } else {
      gradient_strip(bytes, in_bytes, mask_bytes, width, args, first, begin_row, end_row, sum_grad,
                     sum_grad_in);
    }
  }
}

void ref_batch_norm_gradient_sums(const RefBatchNormGradient* args, int64_t begin_row,
                                  int64_t end_row, int64_t* sum_grad, int64_t* sum_grad_in) {
  WITH_OPERANDS(args, gradient_sums(bytes, in_bytes, mask_bytes, args, begin_row, end_row, sum_grad,
                                    sum_grad_in));
}

// |wide| <= 2^60 + 2^46 + 2^60, or as the plan bounds it for gradients of 32 bits.
REF_LOOP RefStatistics gradient_rows(int bytes, int in_bytes, int mask_bytes, int out_bytes,
                                     const RefBatchNormGradient* args, int64_t begin_row,
                                     int64_t end_row) {
  const RefRound64 round = ref_round64(args->shift);
  const int64_t limit = ref_mantissa_limit(args->grad_in.bits), channels = args->channels;
  const int64_t in_unit = (int64_t)1 << args->in_shift;
  const int64_t negative_unit = (int64_t)1 << args->negative_shift;
  const int32_t* restrict grad_multiplier = args->grad_multiplier;
  const int32_t* restrict in_multiplier = args->in_multiplier;
  const int64_t* restrict offset = args->offset;
  void* restrict grad_in = args->grad_in.data;
  RefRange64 range = {0, 0};
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t i = row * channels + c;
      int64_t grad = ref_load(args->grad_out.data, bytes, i);
      int64_t in = ref_load(args->in.data, in_bytes, i);
      if (mask_bytes != 0) {
        grad = ref_load(args->output.data, mask_bytes, i) > 0 ? grad : 0;
        in = in < 0 ? in * negative_unit : in;
      }
      const int64_t of_input = in * in_multiplier[c] * (bytes > 2 ? in_unit : 1);
      const int64_t wide = grad * grad_multiplier[c] + of_input + offset[c];
      ref_include64(&range, wide);
      if (out_bytes == 0) continue;
      saturated += ref_store_narrow(grad_in, out_bytes, i, ref_rounded64(&round, wide), limit);
    }
  }
  return ref_statistics(range.low, range.high, saturated);
}

// Without a result (0 bytes) or with one.
REF_LOOP RefStatistics gradient_of(int bytes, int in_bytes, int mask_bytes,
                                   const RefBatchNormGradient* args, int64_t begin_row,
                                   int64_t end_row) {
  if (args->grad_in.data == NULL) {
    return gradient_rows(bytes, in_bytes, mask_bytes, 0, args, begin_row, end_row);
  }
  REF_WITH_BYTES(
      args->grad_in.bits, out_bytes,
      return gradient_rows(bytes, in_bytes, mask_bytes, out_bytes, args, begin_row, end_row));
}

RefStatistics ref_batch_norm_gradient(const RefBatchNormGradient* args, int64_t begin_row,
                                      int64_t end_row) {
  WITH_OPERANDS(args, return gradient_of(bytes, in_bytes, mask_bytes, args, begin_row, end_row));
}
