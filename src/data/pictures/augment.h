// Random changes to training pictures, as pure functions of random bits.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

// The changes to each picture, in this order, but the flip first. docs/data.md describes each.
struct Augmentation {
  int shift = 0;   // pixels: both axes move by a uniform amount in [-shift, shift], black outside
  int flip = 0;    // 1: mirrored left to right with probability 1/2
  int crop = 0;    // pixels: the same, but mirrored pixels come in from outside
  int jitter = 0;  // percent: brightness, contrast and saturation change by up to so much
  int cutout = 0;  // pixels: a square of this side, at a uniform place, becomes black

  bool operator==(const Augmentation&) const = default;
  // Whether pixels change their places.
  bool moves() const { return shift != 0 || flip != 0 || crop != 0; }
};

// Parses "none" or a comma-separated list of "flip", "shift", "crop", "jitter" and "cutout", all
// but flip with an amount if that is not the usual one ("shift=1"), each at most once. Anything
// else is an error that names the choices.
Result<Augmentation> parse_augmentation(std::string_view text);

// The choices with their usual amounts and ranges: "flip, shift[=2] up to 16, ...".
std::string augmentation_choices();

// "none", or a list such as "shift=2,flip"; parse_augmentation gives the same back.
std::string to_string(const Augmentation& augmentation);

// The random bits of one picture in one epoch: a pure function of (seed, epoch, example).
struct AugmentBits {
  uint64_t move = 0, crop = 0, jitter = 0, cutout = 0;
};
AugmentBits augment_bits(uint64_t seed, uint32_t epoch, uint32_t example);

// Writes the changed picture in[height][width][channels] to `out` (same shape, no overlap). Pixels
// that shift and cutout leave empty are `fill`.
void augment_image(const uint8_t* in, int64_t height, int64_t width, int64_t channels,
                   const Augmentation& augmentation, const AugmentBits& bits, uint8_t fill,
                   uint8_t* out) noexcept;

// Writes labels of pixels in[height][width] to `out`, moved by flip, shift and crop as the picture
// with these bits is. Labels that shift leaves empty are `fill`; jitter and cutout change none.
void move_labels(const uint16_t* in, int64_t height, int64_t width,
                 const Augmentation& augmentation, const AugmentBits& bits, int32_t fill,
                 int32_t* out) noexcept;

}  // namespace mantissa
