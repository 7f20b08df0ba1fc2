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

namespace mantissa::kernels {

// Windows do not overlap (stride = window <= 11) and lie inside the image: a remainder is not read.
struct MaxPoolShape {
  int64_t in_height = 1, in_width = 1, channels = 1;
  int64_t window = 2;
  int64_t out_height() const { return in_height / window; }
  int64_t out_width() const { return in_width / window; }
};

// Taps are numbered in a byte, in row-major order.
constexpr int64_t kLargestPoolWindow = 11;

// Rows or columns [begin, end).
struct PoolRange {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Windows along one axis.
struct PoolAxis {
  int64_t window = 2, stride = 2, padding = 0;

  // The first cell of a window, perhaps before the image.
  int64_t first(int64_t index) const { return index * stride - padding; }
  PoolRange inside(int64_t index, int64_t size) const {
    return {std::max<int64_t>(0, first(index)), std::min(size, first(index) + window)};
  }
  // The windows that hold the cell `at`, of `windows`.
  PoolRange windows_over(int64_t at, int64_t windows) const {
    const int64_t before = at + padding - window;  // the start of a window that ends just before
    return {before < 0 ? 0 : before / stride + 1, std::min(windows, (at + padding) / stride + 1)};
  }
};

// Windows that may overlap and reach beyond the image: every window has a cell inside, and at most
// kLargestPoolWindow rows and columns. stride >= 1, padding >= 0.
struct PoolShape {
  int64_t in_height = 1, in_width = 1, channels = 1;
  int64_t out_height = 1, out_width = 1;
  PoolAxis vertical, horizontal;

  int64_t in_image() const { return in_height * in_width * channels; }
  int64_t out_image() const { return out_height * out_width * channels; }
  // Cells of the image in window row wy, window column wx.
  PoolRange rows(int64_t wy) const { return vertical.inside(wy, in_height); }
  PoolRange columns(int64_t wx) const { return horizontal.inside(wx, in_width); }
  // Cells of a window that lies inside.
  int64_t window_cells() const { return vertical.window * horizontal.window; }
  int8_t tap(int64_t wy, int64_t wx, int64_t y, int64_t x) const {
    const int64_t row = y - vertical.first(wy), column = x - horizontal.first(wx);
    return static_cast<int8_t>(row * horizontal.window + column);
  }
};

// wide = (the sum of the window's cells) * multiplier, narrowed to `bits`. |multiplier| < 2^31, one
// for each window of an image. shift < 0 (only under a fixed exponent) shifts left and saturates.
struct AveragePool {
  PoolShape shape;
  const int8_t* in = nullptr;
  const int64_t* multipliers = nullptr;  // [out_height, out_width]
  int shift = 0;
  int8_t* out = nullptr;         // null: only the statistics
  int bits = 8;                  // of out, 2..8
  WideCounts* counts = nullptr;  // of wide, if it is counted
};

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
