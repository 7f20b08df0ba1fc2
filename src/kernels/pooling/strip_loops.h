// Maximum pooling of 16 channels or more: strips of 16 channels whose maxima stay in registers.
//
// Include inside an anonymous namespace of mantissa::kernels, after pooling.h.

constexpr int64_t kStrip = 16;

// A vector of int8, int16 or int32: operators work lane by lane, on any CPU.
template <typename T>
struct StripOf {
  using Type [[gnu::vector_size(kStrip * sizeof(T))]] = T;
};
template <typename T>
using Strip = typename StripOf<T>::Type;

// By reference: how a vector is passed by value depends on the instruction set.
template <typename T>
inline void load(const T* from, Strip<T>& strip) noexcept {
  std::memcpy(&strip, from, sizeof(strip));
}
template <typename T>
inline void store(const Strip<T>& strip, T* to) noexcept {
  std::memcpy(to, &strip, sizeof(strip));
}

// Calls visit(corner, out) for each window and strip of channels: offsets of the strip's first
// channel in the input (upper left tap) and in the output. The last strip of a pixel ends with the
// pixel, so that it may overlap the one before.
template <typename Visit>
inline void for_each_strip(const MaxPoolShape& s, int64_t window, int64_t begin, int64_t end,
                           Visit&& visit) noexcept {
  const int64_t last = s.channels - kStrip;
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t y = 0; y < s.out_height(); ++y) {
      int64_t corner = (n * s.in_height + y * window) * s.in_width * s.channels;
      int64_t out = (n * s.out_height() + y) * s.out_width() * s.channels;
      for (int64_t x = 0; x < s.out_width(); ++x) {
        for (int64_t c = 0; c < last; c += kStrip) visit(corner + c, out + c);
        visit(corner + last, out + last);
        corner += window * s.channels;
        out += s.channels;
      }
    }
  }
}

// Calls visit(tap, offset) for each tap of a window in row-major order.
template <typename Window, typename Visit>
inline void for_each_tap(const MaxPoolShape& s, Window window, Visit&& visit) noexcept {
  for (int64_t ky = 0; ky < window; ++ky) {
    for (int64_t kx = 0; kx < window; ++kx) {
      visit(static_cast<int8_t>(ky * window + kx), (ky * s.in_width + kx) * s.channels);
    }
  }
}

template <typename Window>
inline void max_pool_strips(const MaxPoolShape& s, Window window, const int8_t* in, int8_t* out,
                            int64_t begin, int64_t end) noexcept {
  for_each_strip(s, window, begin, end, [&](int64_t corner, int64_t at) {
    Strip<int8_t> best, value;
    load(in + corner, best);
    for_each_tap(s, window, [&](int8_t, int64_t offset) {
      load(in + corner + offset, value);
      best = value > best ? value : best;
    });
    store(best, out + at);
  });
}

template <typename T, typename Window>
inline void max_pool_gradient_strips(const MaxPoolShape& s, Window window, const int8_t* in,
                                     const T* grad_out, T* grad_in, int64_t begin,
                                     int64_t end) noexcept {
  for_each_strip(s, window, begin, end, [&](int64_t corner, int64_t at) {
    Strip<int8_t> best, value, which = {};
    load(in + corner, best);
    for_each_tap(s, window, [&](int8_t tap, int64_t offset) {
      load(in + corner + offset, value);
      const Strip<int8_t> above = value > best;
      which = above ? Strip<int8_t>{} + tap : which;
      best = above ? value : best;
    });
    Strip<T> grad;
    load(grad_out + at, grad);
    for_each_tap(s, window, [&](int8_t tap, int64_t offset) {
      const Strip<int8_t> chosen = which == tap;
      const Strip<T> result = grad & __builtin_convertvector(chosen, Strip<T>);
      store(result, grad_in + corner + offset);
    });
  });
}
