// Gradients clipped by their global norm, before the updates of a step.
#pragma once

#include "device/training/updates.h"

REF_BEGIN

// Adds the sum of the squares of a parameter's gradient: exact over mantissas of 31 bits, rounded
// once.
void dev_add_squares(DevStep*, const DevParameter*, RefReal* squares) REF_NOEXCEPT;
// Shrinks the gradients of the updates that follow, if their norm is larger than `most` (the bits
// of a double).
void dev_clip_gradients(DevStep*, RefReal squares, uint64_t most) REF_NOEXCEPT;

REF_END
