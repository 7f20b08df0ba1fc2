// Instructions that C is not written for: they work on volumes.
#pragma once

#include <algorithm>

#include "ops/image_shape.h"
#include "plan/programs/instruction.h"

namespace mantissa::device {

constexpr const char* kNoVolumes =
    "C is written for pictures [H, W, C] and sequences [T, C], not for volumes [D, H, W, C]";

// Whether an operand is volumes, with the micro-batch in front.
inline bool has_volume(const Instruction& instruction) {
  return std::any_of(instruction.operands.begin(), instruction.operands.end(),
                     [](const Operand& operand) { return ops::are_volumes(operand.shape); });
}

}  // namespace mantissa::device
