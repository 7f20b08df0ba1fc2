// The taps of a convolution along the depth of volumes [N, D, H, W, C]: the same in all arithmetics.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/op.h"
#include "ops/attributes.h"

namespace mantissa::ops {

struct DepthTaps {
  int64_t volumes, in_depth, out_depth;
  int64_t elements;  // of an image of the input
  int64_t kernel, stride, padding, dilation;

  // Shapes have the micro-batch in front.
  DepthTaps(const DepthTapsAttributes& a, const Shape& input, const Shape& output)
      : volumes(input[0]),
        in_depth(input[1]),
        out_depth(output[1]),
        elements(input[2] * input[3] * input[4]),
        kernel(a.kernel),
        stride(a.stride),
        padding(a.padding),
        dilation(a.dilation) {}

  // The image of the input, among all volumes' images, that a tap of image `out` reads; -1: it is
  // padding.
  int64_t source(int64_t out, int64_t tap) const {
    const int64_t depth = out % out_depth * stride + tap * dilation - padding;
    return depth < 0 || depth >= in_depth ? -1 : out / out_depth * in_depth + depth;
  }
  // The image whose tap reads image `in`; -1: there is none.
  int64_t reader(int64_t in, int64_t tap) const {
    const int64_t first = in % in_depth + padding - tap * dilation;
    const bool is_read = first >= 0 && first % stride == 0 && first / stride < out_depth;
    return is_read ? in / in_depth * out_depth + first / stride : -1;
  }

  // out[image, i, tap] = in[source, i], or 0.
  template <typename T>
  void gather(int64_t image, const T* in, T* out) const {
    T* const to = out + image * elements * kernel;
    for (int64_t first = 0; first < elements; first += kPiece) {
      const int64_t end = std::min(elements, first + kPiece);
      for (int64_t tap = 0; tap < kernel; ++tap) {
        const int64_t from = source(image, tap);
        if (from < 0) {
          for (int64_t i = first; i < end; ++i) to[i * kernel + tap] = T{};
        } else {
          const T* values = in + from * elements;
          for (int64_t i = first; i < end; ++i) to[i * kernel + tap] = values[i];
        }
      }
    }
  }

  // sums[i] = the sum of grad_out[reader, first + i, tap] over the taps that image `in` meets.
  template <typename T, typename Sum>
  void add_readers(int64_t in, int64_t first, int64_t count, const T* grad_out, Sum* sums) const {
    std::fill_n(sums, count, Sum{0});
    for (int64_t tap = 0; tap < kernel; ++tap) {
      const int64_t image = reader(in, tap);
      if (image < 0) continue;
      const T* from = grad_out + (image * elements + first) * kernel + tap;
      for (int64_t i = 0; i < count; ++i) sums[i] += from[i * kernel];
    }
  }

 private:
  static constexpr int64_t kPiece = 2048;  // whose taps stay in the first-level cache
};

inline DepthTaps depth_taps(const OpContext& c, const Shape& input, const Shape& output) {
  return {c.attributes<DepthTapsAttributes>(), input, output};
}

}  // namespace mantissa::ops
