// Random changes to training pictures, as pure functions of random bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

struct Augmentation {
  int shift = 0;      // pixels: both axes move by a uniform amount in [-shift, shift]
  bool flip = false;  // mirrored left to right with probability 1/2

  bool operator==(const Augmentation&) const = default;
};

// Parses "none" or a comma-separated list of "shift" (2 pixels), "shift=N" (N from 1 to 16) and
// "flip", each at most once. Anything else is an error that names the choices.
Result<Augmentation> parse_augmentation(std::string_view text);

// "none", "shift=2", "flip" or "shift=2,flip"; parse_augmentation gives the same back.
std::string to_string(const Augmentation& augmentation);

// Writes the changed picture in[height][width][channels] to `out` (same shape, no overlap): first
// the flip, then the shift; pixels that move in from outside are `fill`. A pure function of
// random_bits, which come from random_bits(seed, RandomStream::kAugment, epoch, example).
void augment_image(const uint8_t* in, int64_t height, int64_t width, int64_t channels,
                   const Augmentation& augmentation, uint64_t random_bits, uint8_t fill,
                   uint8_t* out) noexcept;

}  // namespace mantissa
