// Pooling of 8-bit values [N, H, W, C]: maximum and average of windows, and the average over the
// whole image. The maximum of windows takes values of up to 16 bits.
//
// Functions work on the images [begin, end). The gradients of one call have the same width, up to
// 32; if gradients are summed the result may have more. Narrowing is saturate(rne(wide >> shift),
// +-(2^(bits-1) - 1)). Wide values are counted
// unless `counts` is null. Source: METHODS section 0.4.
#pragma once

#include "reference/numerics/wide_counts.h"

// Taps are numbered in a byte, in row-major order.
enum { REF_LARGEST_POOL_WINDOW = 11 };

// Windows do not overlap (stride = window <= 11) and lie inside the image: a remainder is not read.
typedef struct RefMaxPoolShape {
  int64_t in_height REF_CXX(= 1), in_width REF_CXX(= 1), channels REF_CXX(= 1);
  int64_t window REF_CXX(= 2);
#ifdef __cplusplus
  int64_t out_height() const { return in_height / window; }
  int64_t out_width() const { return in_width / window; }
#endif
} RefMaxPoolShape;

// Rows or columns [begin, end).
typedef struct RefPoolRange {
  int64_t begin, end;
#ifdef __cplusplus
  int64_t size() const { return end - begin; }
#endif
} RefPoolRange;

// Windows along one axis.
typedef struct RefPoolAxis {
  int64_t window REF_CXX(= 2), stride REF_CXX(= 2), padding REF_CXX(= 0);
#ifdef __cplusplus
  // The first cell of a window, perhaps before the image.
  constexpr int64_t first(int64_t index) const { return index * stride - padding; }
  constexpr RefPoolRange inside(int64_t index, int64_t size) const;
  constexpr RefPoolRange windows_over(int64_t at, int64_t windows) const;
#endif
} RefPoolAxis;

// The cells of a window inside the image.
REF_INLINE RefPoolRange ref_pool_inside(const RefPoolAxis* axis, int64_t index, int64_t size) {
  const int64_t first = index * axis->stride - axis->padding;
  const RefPoolRange range = {ref_larger(0, first), ref_smaller(size, first + axis->window)};
  return range;
}

// The windows that hold the cell `at`, of `windows`.
REF_INLINE RefPoolRange ref_pool_windows_over(const RefPoolAxis* axis, int64_t at,
                                              int64_t windows) {
  // The start of a window that ends just before.
  const int64_t before = at + axis->padding - axis->window;
  const RefPoolRange range = {before < 0 ? 0 : before / axis->stride + 1,
                              ref_smaller(windows, (at + axis->padding) / axis->stride + 1)};
  return range;
}

#ifdef __cplusplus
constexpr RefPoolRange RefPoolAxis::inside(int64_t index, int64_t size) const {
  return ref_pool_inside(this, index, size);
}
constexpr RefPoolRange RefPoolAxis::windows_over(int64_t at, int64_t windows) const {
  return ref_pool_windows_over(this, at, windows);
}
#endif

// Windows that may overlap and reach beyond the image: every window has a cell inside, and at most
// 11 rows and columns. stride >= 1, padding >= 0.
typedef struct RefPoolShape {
  int64_t in_height REF_CXX(= 1), in_width REF_CXX(= 1), channels REF_CXX(= 1);
  int64_t out_height REF_CXX(= 1), out_width REF_CXX(= 1);
  RefPoolAxis vertical, horizontal;
#ifdef __cplusplus
  int64_t in_image() const { return in_height * in_width * channels; }
  int64_t out_image() const { return out_height * out_width * channels; }
  // Cells of the image in window row wy, window column wx.
  RefPoolRange rows(int64_t wy) const { return vertical.inside(wy, in_height); }
  RefPoolRange columns(int64_t wx) const { return horizontal.inside(wx, in_width); }
  // Cells of a window that lies inside.
  int64_t window_cells() const { return vertical.window * horizontal.window; }
  int8_t tap(int64_t wy, int64_t wx, int64_t y, int64_t x) const {
    const int64_t row = y - vertical.first(wy), column = x - horizontal.first(wx);
    return static_cast<int8_t>(row * horizontal.window + column);
  }
#endif
} RefPoolShape;

// wide = (the sum of the window's cells) * multiplier, narrowed to `bits`. |multiplier| < 2^31, one
// for each window of an image. shift < 0 (only under a fixed exponent) shifts left and saturates.
typedef struct RefAveragePool {
  RefPoolShape shape;
  const int8_t* in REF_CXX(= nullptr);
  const int64_t* multipliers REF_CXX(= nullptr);  // [out_height, out_width]
  int shift REF_CXX(= 0);
  int8_t* out REF_CXX(= nullptr);            // null: only the statistics
  int bits REF_CXX(= 8);                     // of out, 2..8
  RefWideCounts* counts REF_CXX(= nullptr);  // of wide, if it is counted
} RefAveragePool;

REF_BEGIN

void ref_max_pool(const RefMaxPoolShape*, const int8_t* in, int8_t* out, int64_t begin,
                  int64_t end) REF_NOEXCEPT;
// The first maximum of a window in row-major order receives the gradient, everything else 0.
void ref_max_pool_gradient(const RefMaxPoolShape*, const int8_t* in, RefConstSpan grad_out,
                           RefSpan grad_in, int64_t begin, int64_t end) REF_NOEXCEPT;
// The maximum (as wide as the input) and the tap of the first maximum of each window; either may be
// null.
void ref_max_pool_windows(const RefPoolShape*, RefConstSpan in, RefSpan out, int8_t* taps,
                          int64_t begin, int64_t end) REF_NOEXCEPT;
// wide = the exact sum of the gradients of the windows whose maximum a cell is, by their taps.
RefStatistics ref_max_pool_windows_gradient(const RefPoolShape*, const int8_t* taps,
                                            RefConstSpan grad_out, int shift, RefSpan grad_in,
                                            int64_t begin, int64_t end,
                                            RefWideCounts* counts) REF_NOEXCEPT;
RefStatistics ref_average_pool(const RefAveragePool*, int64_t begin, int64_t end) REF_NOEXCEPT;
// wide = the exact sum of gradient * multiplier over the windows that hold a cell, below 2^61.
RefStatistics ref_average_pool_gradient(const RefPoolShape*, const int64_t* multipliers,
                                        RefConstSpan grad_out, int shift, RefSpan grad_in,
                                        int64_t begin, int64_t end,
                                        RefWideCounts* counts) REF_NOEXCEPT;
// sums[n, c] = sum over the image's pixels, of at most 2^24.
void ref_image_sums(const int8_t* in, int64_t pixels, int64_t channels, int32_t* sums,
                    int64_t begin, int64_t end) REF_NOEXCEPT;
// out[n, pixel, c] = in[n, c].
void ref_broadcast(RefConstSpan in, int64_t pixels, int64_t channels, RefSpan out, int64_t begin,
                   int64_t end) REF_NOEXCEPT;

REF_END
