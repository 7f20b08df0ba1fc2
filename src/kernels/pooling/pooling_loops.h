// The pooling loops, written once and compiled per instruction set (see elementwise_loops.h).
//
// Include inside an anonymous namespace of mantissa::kernels, after pooling.h.

// Channels are processed in strips of this many, whose maxima stay in registers.
constexpr int64_t kStrip = 16;

// Calls visit(corner, out, width) for each window and strip of channels: offsets of the strip's
// first channel in the input (upper left tap) and in the output.
template <typename Visit>
inline void for_each_strip(const MaxPoolShape& s, int64_t begin, int64_t end, Visit&& visit) {
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t y = 0; y < s.out_height(); ++y) {
      for (int64_t x = 0; x < s.out_width(); ++x) {
        const int64_t corner =
            ((n * s.in_height + y * s.window) * s.in_width + x * s.window) * s.channels;
        const int64_t out = ((n * s.out_height() + y) * s.out_width() + x) * s.channels;
        for (int64_t c = 0; c < s.channels; c += kStrip) {
          visit(corner + c, out + c, std::min(kStrip, s.channels - c));
        }
      }
    }
  }
}

// The maximum of a window for `lanes` channels, and which tap has it first.
template <typename Lanes>
inline void strip_maximum(const MaxPoolShape& s, const int8_t* corner, Lanes lanes, int8_t* best,
                          int8_t* which) noexcept {
  for (int64_t c = 0; c < lanes; ++c) best[c] = corner[c], which[c] = 0;
  int8_t tap = 0;
  for (int64_t ky = 0; ky < s.window; ++ky) {
    const int8_t* from = corner + ky * s.in_width * s.channels;
    for (int64_t kx = 0; kx < s.window; ++kx, ++tap, from += s.channels) {
      for (int64_t c = 0; c < lanes; ++c) {
        const bool above = from[c] > best[c];
        which[c] = above ? tap : which[c];
        best[c] = above ? from[c] : best[c];
      }
    }
  }
}

inline void max_pool(const MaxPoolShape& s, const int8_t* in, int8_t* out, int64_t begin,
                     int64_t end) noexcept {
  for_each_strip(s, begin, end, [&](int64_t corner, int64_t at, int64_t width) {
    int8_t best[kStrip], which[kStrip];
    if (width == kStrip) {
      strip_maximum(s, in + corner, std::integral_constant<int64_t, kStrip>(), best, which);
      for (int64_t c = 0; c < kStrip; ++c) out[at + c] = best[c];
    } else {
      strip_maximum(s, in + corner, width, best, which);
      for (int64_t c = 0; c < width; ++c) out[at + c] = best[c];
    }
  });
}

template <typename T, typename Lanes>
inline void strip_gradient(const MaxPoolShape& s, const int8_t* in, const T* grad_out, Lanes lanes,
                           T* grad_in) noexcept {
  int8_t best[kStrip], which[kStrip];
  strip_maximum(s, in, lanes, best, which);
  int8_t tap = 0;
  for (int64_t ky = 0; ky < s.window; ++ky) {
    T* to = grad_in + ky * s.in_width * s.channels;
    for (int64_t kx = 0; kx < s.window; ++kx, ++tap, to += s.channels) {
      for (int64_t c = 0; c < lanes; ++c) to[c] = which[c] == tap ? grad_out[c] : T{0};
    }
  }
}

template <typename T>
inline void max_pool_gradient_of(const MaxPoolShape& s, const int8_t* in, const T* grad_out,
                                 T* grad_in, int64_t begin, int64_t end) noexcept {
  const int64_t image = s.in_height * s.in_width * s.channels;
  std::fill(grad_in + begin * image, grad_in + end * image, T{0});
  for_each_strip(s, begin, end, [&](int64_t corner, int64_t at, int64_t width) {
    if (width == kStrip) {
      strip_gradient(s, in + corner, grad_out + at, std::integral_constant<int64_t, kStrip>(),
                     grad_in + corner);
    } else {
      strip_gradient(s, in + corner, grad_out + at, width, grad_in + corner);
    }
  });
}

inline void max_pool_gradient(const MaxPoolShape& s, const int8_t* in, ConstGradient grad_out,
                              Gradient grad_in, int64_t begin, int64_t end) noexcept {
  with_gradient_type(grad_out.bits, [&](auto type) {
    using T = decltype(type);
    max_pool_gradient_of(s, in, grad_out.as<T>(), grad_in.as<T>(), begin, end);
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

inline void broadcast(ConstGradient in, int64_t pixels, int64_t channels, Gradient out,
                      int64_t begin, int64_t end) noexcept {
  const int64_t bytes = channels * gradient_bytes(in.bits);
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      std::copy_n(in.as<char>() + n * bytes, bytes, out.as<char>() + (n * pixels + pixel) * bytes);
    }
  }
}
