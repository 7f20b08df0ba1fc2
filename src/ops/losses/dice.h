// Dice's loss of the places of an example: of pixels or positions that each have a class.
#pragma once

#include <cstdint>

#include "graph/attributes.h"

namespace mantissa::ops {

struct DiceAttributes {
  double smooth = 0;  // places that are added to both sides of each quotient
  int64_t smooth_q24 = 0;
  double cross_entropy = 0;  // the factor of the places' cross-entropy
  int64_t cross_entropy_q16 = 0;
};

// The whole numbers of the attributes.
void derive_dice(DiceAttributes& attributes);

// Places of an example, so that sums of 24 bits for each, with weights of 15, stay in 64 bits.
inline constexpr int64_t kMostPlaces = int64_t{1} << 22;

}  // namespace mantissa::ops
