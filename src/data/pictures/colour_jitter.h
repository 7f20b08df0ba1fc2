// Changes of brightness, contrast and saturation, in integers.
#pragma once

#include <cstdint>

namespace mantissa {

// Factors in units of 1/256, from 0 to 512.
struct ColourJitter {
  int brightness = 256, contrast = 256, saturation = 256;
};

// Uniform factors that differ from 1 by up to `percent` / 100 (percent from 1 to 100).
ColourJitter draw_jitter(uint64_t bits, int percent) noexcept;

// Changes pixels[count][channels] in place, channels 1 or 3, in three passes of
//   value <- clip(base + floor(((value - base) * factor + 128) / 256))   to 0 ... 255
// with base 0 for brightness; for contrast the mean grey of the picture (grey_of, rounded down);
// for saturation, of colours only, the pixel's own grey.
void jitter_colours(const ColourJitter& jitter, int64_t count, int64_t channels,
                    uint8_t* pixels) noexcept;

}  // namespace mantissa
