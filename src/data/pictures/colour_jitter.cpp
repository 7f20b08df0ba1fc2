#include "data/pictures/colour_jitter.h"

#include <algorithm>

#include "formats/pictures/image.h"

namespace mantissa {
namespace {

uint8_t scaled(int value, int base, int factor) {
  return static_cast<uint8_t>(std::clamp(base + (((value - base) * factor + 128) >> 8), 0, 255));
}

int pixel_grey(const uint8_t* pixel, int64_t channels) {
  return channels == 3 ? grey_of(pixel[0], pixel[1], pixel[2]) : pixel[0];
}

}  // namespace

ColourJitter draw_jitter(uint64_t bits, int percent) noexcept {
  const int most = (percent * 256 + 50) / 100;
  const auto draw = [&](int shift) {
    const uint64_t part = bits >> shift & 0x1fffff;
    return 256 - most + static_cast<int>((part * (2 * static_cast<uint64_t>(most) + 1)) >> 21);
  };
  return {draw(0), draw(21), draw(42)};
}

void jitter_colours(const ColourJitter& jitter, int64_t count, int64_t channels,
                    uint8_t* pixels) noexcept {
  const int64_t samples = count * channels;
  for (int64_t i = 0; i < samples; ++i) pixels[i] = scaled(pixels[i], 0, jitter.brightness);
  int64_t sum = 0;
  for (int64_t i = 0; i < samples; i += channels) sum += pixel_grey(pixels + i, channels);
  const int mean = static_cast<int>(sum / count);
  for (int64_t i = 0; i < samples; ++i) pixels[i] = scaled(pixels[i], mean, jitter.contrast);
  if (channels != 3) return;
  for (int64_t i = 0; i < samples; i += channels) {
    const int grey = pixel_grey(pixels + i, channels);
    for (int64_t c = 0; c < channels; ++c) {
      pixels[i + c] = scaled(pixels[i + c], grey, jitter.saturation);
    }
  }
}

}  // namespace mantissa
