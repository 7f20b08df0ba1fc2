// How pictures are turned so that they stand upright. Phones and cameras store them as the sensor
// lies, and say in EXIF's tag 0x0112 how it lay.
#pragma once

#include <cstdint>
#include <span>

namespace mantissa {

// The tag's value, 1 (already upright) to 8, in an EXIF block (a TIFF file: "II" or "MM" first). 1
// if the block has none, or is damaged: the pixels are intact all the same.
int exif_orientation(std::span<const uint8_t> exif);

// The place of each pixel of a stored picture in the upright one.
struct Placement {
  int64_t height, width;          // of the upright picture
  int64_t first, x_step, y_step;  // pixel (x, y) goes to first + x * x_step + y * y_step
};

// For a stored picture of that size. An orientation outside 1 to 8 counts as 1.
Placement place_upright(int orientation, int64_t height, int64_t width);

// Puts row y of the stored picture, of `width` pixels, where it belongs in the upright one.
void place_row(const uint8_t* row, int64_t y, int64_t width, int64_t channels,
               const Placement& placement, uint8_t* pixels) noexcept;

}  // namespace mantissa
