// Pooling of 8-bit values [N, H, W, C]: maximum and average of windows, and the average over the
// whole image. The maximum of windows takes values of any width.
//
// Functions work on the images [begin, end) on the calling thread. The gradients of one call have
// the same width, up to 32; if gradients are summed the result may have more. Narrowing is
// saturate(rne(wide >> shift), +-(2^(bits-1) - 1)). Wide values are counted unless `counts` is
// null. Source: METHODS section 0.4.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/statistics.h"
#include "reference/layers/pooling.h"

namespace mantissa::kernels {

// What a call takes (reference/layers/pooling.h).
using MaxPoolShape = RefMaxPoolShape;
using PoolRange = RefPoolRange;
using PoolAxis = RefPoolAxis;
using PoolShape = RefPoolShape;
using AveragePool = RefAveragePool;

// Taps are numbered in a byte, in row-major order.
constexpr int64_t kLargestPoolWindow = REF_LARGEST_POOL_WINDOW;

struct PoolingKernels {
  const char* name;
  Features needs;
  void (*max_pool)(const MaxPoolShape&, const int8_t* in, int8_t* out, int64_t begin,
                   int64_t end) noexcept;
  // The first maximum of a window in row-major order receives the gradient, everything else 0.
  void (*max_pool_gradient)(const MaxPoolShape&, const int8_t* in, ConstMantissaSpan grad_out,
                            MantissaSpan grad_in, int64_t begin, int64_t end) noexcept;
  // The maximum (as wide as the input) and the tap of the first maximum of each window; either may
  // be null.
  void (*max_pool_windows)(const PoolShape&, ConstMantissaSpan in, MantissaSpan out, int8_t* taps,
                           int64_t begin, int64_t end) noexcept;
  // wide = the exact sum of the gradients of the windows whose maximum a cell is, by their taps.
  WideStatistics (*max_pool_windows_gradient)(const PoolShape&, const int8_t* taps,
                                              ConstMantissaSpan grad_out, int shift,
                                              MantissaSpan grad_in, int64_t begin, int64_t end,
                                              WideCounts* counts) noexcept;
  WideStatistics (*average_pool)(const AveragePool&, int64_t begin, int64_t end) noexcept;
  // wide = the exact sum of gradient * multiplier over the windows that hold a cell, below 2^61.
  WideStatistics (*average_pool_gradient)(const PoolShape&, const int64_t* multipliers,
                                          ConstMantissaSpan grad_out, int shift,
                                          MantissaSpan grad_in, int64_t begin, int64_t end,
                                          WideCounts* counts) noexcept;
  // sums[n, c] = sum over the image's pixels.
  void (*image_sums)(const int8_t* in, int64_t pixels, int64_t channels, int32_t* sums,
                     int64_t begin, int64_t end) noexcept;
  // out[n, pixel, c] = in[n, c].
  void (*broadcast)(ConstMantissaSpan in, int64_t pixels, int64_t channels, MantissaSpan out,
                    int64_t begin, int64_t end) noexcept;
};

extern const PoolingKernels kPoolingReference;
#if defined(__x86_64__)
extern const PoolingKernels kPoolingAvx2;
extern const PoolingKernels kPoolingAvx512Vnni;
#endif

}  // namespace mantissa::kernels
