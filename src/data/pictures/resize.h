// Pictures brought to one size and number of channels, in exact integer arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

struct PictureSize {
  int64_t height = 0;
  int64_t width = 0;

  bool operator==(const PictureSize&) const = default;
};

struct PictureForm {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  // 1: grey, 3: red, green, blue

  int64_t bytes() const { return height * width * channels; }
  bool operator==(const PictureForm&) const = default;
};

constexpr int64_t kMaxInputSide = 4096;

// Parses "0" (as the data are: 0 x 0), "32" (32 x 32) or "28x32" (height x width); sides from 1 to
// kMaxInputSide.
Result<PictureSize> parse_picture_size(std::string_view text);

// "0", "32" or "28x32"; parse_picture_size gives the same back.
std::string to_string(const PictureSize& size);

// The largest part, in the middle, of a `from` picture that has the proportions of `to`; sides are
// rounded to nearest (ties up), odd rests lie at the end.
struct Crop {
  int64_t top = 0, left = 0, height = 0, width = 0;
};
Crop centre_crop(const PictureSize& from, const PictureSize& to);

// Brings a picture in[from] to out[to] (no overlap): colours are converted
// (formats/pictures/image.h), the centre crop is cut out, and each axis is resized: the exact
// average of the area if it shrinks, linear interpolation between pixel centres if it grows.
// All weights are whole numbers over one denominator; each result is rounded once, to nearest, ties
// up. A picture that has the form already is copied. Sides of `from` at most 16384, of `to` at most
// kMaxInputSide. May throw std::bad_alloc.
void fit_picture(const uint8_t* in, const PictureForm& from, const PictureForm& to, uint8_t* out);

}  // namespace mantissa
