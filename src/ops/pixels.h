// The constants that all forms of normalise_input share: in integers, in floats, and in ONNX.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "ops/attributes.h"

namespace mantissa::ops {

// Pixels of natural images have a standard deviation of about 64.
inline constexpr int kPixelExponent = -6;
// Fixed size, so that the means can lie on the stack.
inline constexpr int64_t kMaximumInputChannels = 4;

// The mean of each channel, in pixels; 0 if none is given. Exact: 8 bits before the point, and at
// most 16 after it. So is a pixel less its mean.
inline std::array<float, kMaximumInputChannels> pixel_means(const InputAttributes& attributes) {
  std::array<float, kMaximumInputChannels> means{};
  const int fraction = attributes.fraction_bits;
  const WholeList& list = attributes.means;
  std::transform(list.begin(), list.end(), means.begin(),
                 [&](int64_t mean) { return std::ldexp(static_cast<float>(mean), -fraction); });
  return means;
}

}  // namespace mantissa::ops
