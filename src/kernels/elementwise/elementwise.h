// Element-wise integer kernels: requantise, input normalisation, ReLU, add, sums of gradients,
// look-ups, products.
//
// A function works on the elements [begin, end) of its operands, on the calling thread; callers
// split ranges. Functions whose wide results can be computed anew are called twice if the exponent
// must be exact: first for the maximum (out == nullptr: nothing is written), then with the shift.
// Narrowing is saturate(rne(wide >> shift), +-(2^(bits-1) - 1)), bits being 2..8 or a gradient's
// own. The operands of one call are of one type; its results may be wider. Source: METHODS section
// 0.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/statistics.h"
#include "reference/elements/elementwise.h"

namespace mantissa::kernels {

// What a call takes (reference/elements/elementwise.h).
using Requantise = RefRequantise;
using RequantiseChannels = RefRequantiseChannels;
using ShiftChannels = RefShiftChannels;
using NormaliseInput = RefNormaliseInput;
using Add = RefAdd;
using AddWide = RefAddWide;
using Multiply = RefMultiply;
using ScaleGradient = RefScaleGradient;
using ScaleWithin = RefScaleWithin;

struct ElementwiseKernels {
  const char* name;
  Features needs;
  WideStatistics (*requantise)(const Requantise&, int64_t begin, int64_t end) noexcept;
  WideStatistics (*normalise_input)(const NormaliseInput&, int64_t begin_row,
                                    int64_t end_row) noexcept;
  WideStatistics (*add)(const Add&, int64_t begin, int64_t end) noexcept;
  WideStatistics (*add_wide)(const AddWide&, int64_t begin, int64_t end) noexcept;
  // out = max(0, in).
  void (*relu)(const int8_t* in, int8_t* out, int64_t begin, int64_t end) noexcept;
  // grad_in = output > 0 ? grad_out : 0.
  void (*relu_gradient)(const int8_t* output, ConstMantissaSpan grad_out, MantissaSpan grad_in,
                        int64_t begin, int64_t end) noexcept;
  // sums[c] += sum over rows [begin, end) of in[row, c], of up to 32 bits.
  void (*sum_rows)(ConstMantissaSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                   int64_t* sums) noexcept;
  // The same of |in[row, c]|.
  void (*sum_magnitudes)(ConstMantissaSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                         int64_t* sums) noexcept;
  // maxima[c] = max(maxima[c], |wide[row, c]|) over rows [begin, end); for the guard.
  void (*channel_maxima)(const int32_t* wide, int64_t channels, int64_t begin_row, int64_t end_row,
                         uint32_t* maxima) noexcept;
  // Returns how many saturated.
  int64_t (*requantise_channels)(const RequantiseChannels&, int64_t begin_row,
                                 int64_t end_row) noexcept;
  // counts[byte of in] += 1 for each element; counts is [256].
  void (*count_values)(const int8_t* in, int64_t begin, int64_t end, int64_t* counts) noexcept;
  // out = table[byte of in]; table is [256]; out may be in.
  void (*look_up)(const int8_t* in, const int8_t* table, int8_t* out, int64_t begin,
                  int64_t end) noexcept;
  // out = min(max(in, low), high); out may be in.
  void (*clamp)(const int8_t* in, int8_t low, int8_t high, int8_t* out, int64_t begin,
                int64_t end) noexcept;
  // out = low <= in <= high ? 1 : 0.
  void (*within)(const int8_t* in, int8_t low, int8_t high, int8_t* out, int64_t begin,
                 int64_t end) noexcept;
  // Extremes of all elements and of `least` and `most` themselves.
  void (*extremes)(const int8_t* in, int64_t begin, int64_t end, int8_t* least,
                   int8_t* most) noexcept;
  WideStatistics (*multiply)(const Multiply&, int64_t begin, int64_t end) noexcept;
  WideStatistics (*scale_gradient)(const ScaleGradient&, int64_t begin, int64_t end) noexcept;
  // sums[c] += sum over rows [begin, end) of grad[row, c] * in[row, c].
  void (*sum_products)(ConstMantissaSpan grad, const int8_t* in, int64_t channels,
                       int64_t begin_row, int64_t end_row, int64_t* sums) noexcept;
  WideStatistics (*scale_within)(const ScaleWithin&, int64_t begin, int64_t end) noexcept;
  // Sum of grad[i] * table[byte of in[i]]; table is [256].
  int64_t (*sum_by_table)(ConstMantissaSpan grad, const int8_t* in, const int8_t* table,
                          int64_t begin, int64_t end) noexcept;
  void (*shift_channels)(const ShiftChannels&, int64_t begin_row, int64_t end_row) noexcept;
};

extern const ElementwiseKernels kElementwiseReference;
#if defined(__x86_64__)
extern const ElementwiseKernels kElementwiseAvx2;
extern const ElementwiseKernels kElementwiseAvx512Vnni;
#endif

}  // namespace mantissa::kernels
