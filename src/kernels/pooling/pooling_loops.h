// The pooling loops, written once and compiled per instruction set (see elementwise_loops.h).
//
// Include inside an anonymous namespace of mantissa::kernels, after pooling.h.

inline void max_pool(const MaxPoolShape& s, const int8_t* in, int8_t* out, int64_t begin,
                     int64_t end) noexcept {
  const int64_t row = s.in_width * s.channels;
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t y = 0; y < s.out_height(); ++y) {
      for (int64_t x = 0; x < s.out_width(); ++x) {
        const int8_t* corner =
            in + ((n * s.in_height + y * s.window) * s.in_width + x * s.window) * s.channels;
        int8_t* __restrict to = out + ((n * s.out_height() + y) * s.out_width() + x) * s.channels;
        for (int64_t c = 0; c < s.channels; ++c) to[c] = corner[c];
        for (int64_t tap = 1; tap < s.window * s.window; ++tap) {
          const int8_t* __restrict from =
              corner + tap / s.window * row + tap % s.window * s.channels;
          for (int64_t c = 0; c < s.channels; ++c) to[c] = from[c] > to[c] ? from[c] : to[c];
        }
      }
    }
  }
}

inline void max_pool_gradient(const MaxPoolShape& s, const int8_t* in, const int16_t* grad_out,
                              int16_t* grad_in, int64_t begin, int64_t end) noexcept {
  const int64_t row = s.in_width * s.channels;
  const int64_t taps = s.window * s.window;
  std::fill(grad_in + begin * s.in_height * row, grad_in + end * s.in_height * row, int16_t{0});
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t y = 0; y < s.out_height(); ++y) {
      for (int64_t x = 0; x < s.out_width(); ++x) {
        const int64_t corner =
            ((n * s.in_height + y * s.window) * s.in_width + x * s.window) * s.channels;
        const int16_t* __restrict grad =
            grad_out + ((n * s.out_height() + y) * s.out_width() + x) * s.channels;
        // A tap is the first maximum if it is above all taps before and not below any after.
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t at = corner + tap / s.window * row + tap % s.window * s.channels;
          for (int64_t c = 0; c < s.channels; ++c) {
            bool first = true;
            for (int64_t other = 0; other < taps; ++other) {
              const int8_t rival =
                  in[corner + other / s.window * row + other % s.window * s.channels + c];
              first &= other < tap ? in[at + c] > rival : in[at + c] >= rival;
            }
            grad_in[at + c] = first ? grad[c] : int16_t{0};
          }
        }
      }
    }
  }
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

inline void broadcast(const int16_t* in, int64_t pixels, int64_t channels, int16_t* out,
                      int64_t begin, int64_t end) noexcept {
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      std::copy_n(in + n * channels, channels, out + (n * pixels + pixel) * channels);
    }
  }
}
