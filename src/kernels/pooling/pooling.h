// Pooling of 8-bit values [N, H, W, C]: maximum, and the average over the whole image.
//
// Functions work on the images [begin, end) on the calling thread. The gradients of one call have
// the same width. Source: METHODS section 0.4.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "kernels/gradient.h"
#include "kernels/statistics.h"

namespace mantissa::kernels {

// Windows do not overlap (stride = window <= 11) and lie inside the image: a remainder is not read.
struct MaxPoolShape {
  int64_t in_height = 1, in_width = 1, channels = 1;
  int64_t window = 2;
  int64_t out_height() const { return in_height / window; }
  int64_t out_width() const { return in_width / window; }
};

struct PoolingKernels {
  const char* name;
  Isa isa;
  void (*max_pool)(const MaxPoolShape&, const int8_t* in, int8_t* out, int64_t begin,
                   int64_t end) noexcept;
  // The first maximum of a window in row-major order receives the gradient, everything else 0.
  void (*max_pool_gradient)(const MaxPoolShape&, const int8_t* in, ConstGradient grad_out,
                            Gradient grad_in, int64_t begin, int64_t end) noexcept;
  // sums[n, c] = sum over the image's pixels.
  void (*image_sums)(const int8_t* in, int64_t pixels, int64_t channels, int32_t* sums,
                     int64_t begin, int64_t end) noexcept;
  // out[n, pixel, c] = in[n, c].
  void (*broadcast)(ConstGradient in, int64_t pixels, int64_t channels, Gradient out, int64_t begin,
                    int64_t end) noexcept;
};

extern const PoolingKernels kPoolingReference;
#if defined(__x86_64__)
extern const PoolingKernels kPoolingAvx2;
extern const PoolingKernels kPoolingAvx512Vnni;
#endif

}  // namespace mantissa::kernels
