// grad_weights of a gradient with more than 16 bits, by rows for up to 16 (kConvolutionDigits): the
// gradient is a sum of three digits in base 2^11. Each is a gradient by itself, and the exact sums
// of all three are added before they are rounded.
#pragma once

#include <cstdint>

namespace mantissa::kernels {

// Output pixels in a batch whose sums fit 2^61, with gradients of 32 bits.
constexpr int64_t kMaximumWideGradientPixels = int64_t{1} << 22;

}  // namespace mantissa::kernels
