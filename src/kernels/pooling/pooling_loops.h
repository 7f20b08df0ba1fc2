// The pooling loops, written once and compiled per instruction set (see elementwise_loops.h).
//
// Include inside an anonymous namespace of mantissa::kernels, after pooling.h and rounding.h.

#include "kernels/pooling/strip_loops.h"
// In this order: rows are made of strips.
#include "kernels/pooling/row_loops.h"
#include "kernels/pooling/window_loops.h"

// Calls function(window), with the usual window of 2 as a constant.
template <typename Function>
inline void with_window(int64_t window, Function&& function) noexcept {
  if (window == 2) {
    function(std::integral_constant<int64_t, 2>());
  } else {
    function(window);
  }
}

inline void max_pool(const MaxPoolShape& s, const int8_t* in, int8_t* out, int64_t begin,
                     int64_t end) noexcept {
  with_window(s.window, [&](auto window) {
    if (s.channels < kStrip) {
      max_pool_rows(s, window, in, out, begin, end);
    } else {
      max_pool_strips(s, window, in, out, begin, end);
    }
  });
}

// Zeroes the cells that no window covers.
template <typename T>
inline void clear_remainder(const MaxPoolShape& s, T* grad_in, int64_t begin,
                            int64_t end) noexcept {
  const int64_t row = s.in_width * s.channels;
  const int64_t covered = s.out_width() * s.window * s.channels;
  const int64_t covered_rows = s.out_height() * s.window;
  for (int64_t n = begin; n < end; ++n) {
    T* image = grad_in + n * s.in_height * row;
    if (covered < row) {
      for (int64_t y = 0; y < covered_rows; ++y) {
        std::fill(image + y * row + covered, image + (y + 1) * row, T{0});
      }
    }
    std::fill(image + covered_rows * row, image + s.in_height * row, T{0});
  }
}

inline void max_pool_gradient(const MaxPoolShape& s, const int8_t* in, ConstMantissaSpan grad_out,
                              MantissaSpan grad_in, int64_t begin, int64_t end) noexcept {
  with_wide_gradient_type(grad_out.bits, [&](auto type) {
    using T = decltype(type);
    clear_remainder(s, grad_in.as<T>(), begin, end);
    with_window(s.window, [&](auto window) {
      if (s.channels < kStrip) {
        max_pool_gradient_rows(s, window, in, grad_out.as<T>(), grad_in.as<T>(), begin, end);
      } else {
        max_pool_gradient_strips(s, window, in, grad_out.as<T>(), grad_in.as<T>(), begin, end);
      }
    });
  });
}

inline void image_sums(const int8_t* in, int64_t pixels, int64_t channels, int32_t* sums,
                       int64_t begin, int64_t end) noexcept {
  for (int64_t n = begin; n < end; ++n) {
    int32_t* __restrict to = sums + n * channels;
    for (int64_t c = 0; c < channels; ++c) to[c] = 0;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const int8_t* __restrict from = in + (n * pixels + pixel) * channels;
      for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
    }
  }
}

inline void broadcast(ConstMantissaSpan in, int64_t pixels, int64_t channels, MantissaSpan out,
                      int64_t begin, int64_t end) noexcept {
  const int64_t bytes = channels * gradient_bytes(in.bits);
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      std::copy_n(in.as<char>() + n * bytes, bytes, out.as<char>() + (n * pixels + pixel) * bytes);
    }
  }
}
