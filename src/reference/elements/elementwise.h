// Element-wise integer rows: requantise, input normalisation, ReLU, add, sums of gradients,
// look-ups, products.
//
// A function works on the elements [begin, end) of its operands. Functions whose wide results can
// be computed anew are called twice if the exponent must be exact: first for the maximum (without
// `out`: nothing is written), then with the shift. Narrowing is saturate(rne(wide >> shift),
// +-(2^(bits-1) - 1)), bits being 2..8 or a gradient's own. The operands of one call are of one
// type; its results may be wider. Source: METHODS section 0.
#pragma once

#include "reference/types.h"

// Wide int32 to int8. shift < 0 (only under a fixed exponent) shifts left and saturates.
typedef struct RefRequantise {
  const int32_t* wide REF_CXX(= nullptr);
  int shift REF_CXX(= 0);
  int8_t* out REF_CXX(= nullptr);
  int bits REF_CXX(= 8);
} RefRequantise;

// The same with a shift per channel: out[row, c] = narrow(wide[row, c] >> shifts[c]).
typedef struct RefRequantiseChannels {
  const int32_t* wide REF_CXX(= nullptr);    // [rows, channels]
  const int32_t* shifts REF_CXX(= nullptr);  // [channels], each in [0, 31]
  int64_t channels REF_CXX(= 1);
  int8_t* out REF_CXX(= nullptr);
  int bits REF_CXX(= 8);
} RefRequantiseChannels;

// Gradients [rows, channels] with a right shift per channel: out[row, c] = rne(in[row, c] >>
// shifts[c]), as wide as they were.
typedef struct RefShiftChannels {
  RefConstSpan in;
  const int32_t* shifts
      REF_CXX(= nullptr);  // [channels], each in [0, 30]: from 16 on nothing is left
  int64_t channels REF_CXX(= 1);
  RefSpan out;
} RefShiftChannels;

// Pixels uint8 [rows, channels] to int8: wide = pixel - mean[channel].
typedef struct RefNormaliseInput {
  const uint8_t* pixels REF_CXX(= nullptr);
  const int32_t* mean REF_CXX(= nullptr);  // [channels]
  int64_t channels REF_CXX(= 1);
  int shift REF_CXX(= 0);
  int8_t* out REF_CXX(= nullptr);
  int bits REF_CXX(= 8);
} RefNormaliseInput;

// out = narrow(relu?(rescale(a, shift_a) + rescale(b, shift_b))): the addends are first brought to
// the sum's exponent (rescale_rne; shifts are <= 0 except for an addend below the alignment limit).
typedef struct RefAdd {
  const int8_t* a REF_CXX(= nullptr);
  const int8_t* b REF_CXX(= nullptr);
  int shift_a REF_CXX(= 0), shift_b REF_CXX(= 0);
  bool relu REF_CXX(= false);
  int shift REF_CXX(= 0);
  int8_t* out REF_CXX(= nullptr);
  int bits REF_CXX(= 8);
} RefAdd;

// The same in int64, of gradients or of values of up to 16 bits; shifts of addends >= -40, shift >=
// 0.
typedef struct RefAddWide {
  RefConstSpan a;
  RefConstSpan b;
  int shift_a REF_CXX(= 0), shift_b REF_CXX(= 0);
  bool relu REF_CXX(= false);
  int shift REF_CXX(= 0);
  RefSpan out;
} RefAddWide;

// out[i] = narrow(a[i] * b[i]). With a period, b has this many elements and is used for each row of
// a; ranges are whole rows then.
typedef struct RefMultiply {
  const int8_t* a REF_CXX(= nullptr);
  const int8_t* b REF_CXX(= nullptr);
  int64_t period REF_CXX(= 0);
  int shift REF_CXX(= 0);
  int8_t* out REF_CXX(= nullptr);
  int bits REF_CXX(= 8);
} RefMultiply;

// grad_in[i] = narrow(grad_out[i] * factors[by[i]]) in int64, |product| < 2^61; `by` (its bytes)
// may have a period as b of RefMultiply; shift >= 0.
typedef struct RefScaleGradient {
  RefConstSpan grad_out;
  const int8_t* by REF_CXX(= nullptr);
  const int64_t* factors REF_CXX(= nullptr);  // [256], of the byte of each mantissa
  int64_t period REF_CXX(= 0);
  int shift REF_CXX(= 0);
  RefSpan grad_in;
} RefScaleGradient;

// grad_in[i] = low <= by[i] <= high ? narrow(grad_out[i] * factor) : 0 in int64; 0 <= factor <=
// 2^30, |product| < 2^61; shift >= 0.
typedef struct RefScaleWithin {
  RefConstSpan grad_out;
  const int8_t* by REF_CXX(= nullptr);
  int8_t low REF_CXX(= 0), high REF_CXX(= 0);
  int64_t factor REF_CXX(= 0);
  int shift REF_CXX(= 0);
  RefSpan grad_in;
} RefScaleWithin;

REF_BEGIN

RefStatistics ref_requantise(const RefRequantise*, int64_t begin, int64_t end) REF_NOEXCEPT;
RefStatistics ref_normalise_input(const RefNormaliseInput*, int64_t begin_row,
                                  int64_t end_row) REF_NOEXCEPT;
RefStatistics ref_add(const RefAdd*, int64_t begin, int64_t end) REF_NOEXCEPT;
RefStatistics ref_add_wide(const RefAddWide*, int64_t begin, int64_t end) REF_NOEXCEPT;
// out = max(0, in).
void ref_relu(const int8_t* in, int8_t* out, int64_t begin, int64_t end) REF_NOEXCEPT;
// grad_in = output > 0 ? grad_out : 0.
void ref_relu_gradient(const int8_t* output, RefConstSpan grad_out, RefSpan grad_in, int64_t begin,
                       int64_t end) REF_NOEXCEPT;
// sums[c] += sum over rows [begin, end) of in[row, c], of up to 32 bits; at most 2^31 rows.
void ref_sum_rows(RefConstSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                  int64_t* sums) REF_NOEXCEPT;
// The same of |in[row, c]|.
void ref_sum_magnitudes(RefConstSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                        int64_t* sums) REF_NOEXCEPT;
// maxima[c] = max(maxima[c], |wide[row, c]|) over rows [begin, end); for the guard.
void ref_channel_maxima(const int32_t* wide, int64_t channels, int64_t begin_row, int64_t end_row,
                        uint32_t* maxima) REF_NOEXCEPT;
// Returns how many saturated.
int64_t ref_requantise_channels(const RefRequantiseChannels*, int64_t begin_row,
                                int64_t end_row) REF_NOEXCEPT;
void ref_shift_channels(const RefShiftChannels*, int64_t begin_row, int64_t end_row) REF_NOEXCEPT;

// counts[byte of in] += 1 for each element; counts is [256].
void ref_count_values(const int8_t* in, int64_t begin, int64_t end, int64_t* counts) REF_NOEXCEPT;
// out = table[byte of in]; table is [256]; out may be in.
void ref_look_up(const int8_t* in, const int8_t* table, int8_t* out, int64_t begin,
                 int64_t end) REF_NOEXCEPT;
// out = min(max(in, low), high); out may be in.
void ref_clamp_values(const int8_t* in, int8_t low, int8_t high, int8_t* out, int64_t begin,
                      int64_t end) REF_NOEXCEPT;
// out = low <= in <= high ? 1 : 0.
void ref_within(const int8_t* in, int8_t low, int8_t high, int8_t* out, int64_t begin,
                int64_t end) REF_NOEXCEPT;
// Extremes of all elements and of `least` and `most` themselves.
void ref_extremes(const int8_t* in, int64_t begin, int64_t end, int8_t* least,
                  int8_t* most) REF_NOEXCEPT;
RefStatistics ref_multiply(const RefMultiply*, int64_t begin, int64_t end) REF_NOEXCEPT;
RefStatistics ref_scale_gradient(const RefScaleGradient*, int64_t begin, int64_t end) REF_NOEXCEPT;
// sums[c] += sum over rows [begin, end) of grad[row, c] * in[row, c].
void ref_sum_products(RefConstSpan grad, const int8_t* in, int64_t channels, int64_t begin_row,
                      int64_t end_row, int64_t* sums) REF_NOEXCEPT;
RefStatistics ref_scale_within(const RefScaleWithin*, int64_t begin, int64_t end) REF_NOEXCEPT;
// Sum of grad[i] * table[byte of in[i]]; table is [256].
int64_t ref_sum_by_table(RefConstSpan grad, const int8_t* in, const int8_t* table, int64_t begin,
                         int64_t end) REF_NOEXCEPT;

REF_END
