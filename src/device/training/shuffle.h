// The order of training examples: that of `mantissa train`, by the same keys.
#pragma once

#include "reference/types.h"

REF_BEGIN

// order = a uniform permutation of 0 ... count - 1, a function of seed and epoch.
void dev_shuffle(uint64_t seed, uint32_t epoch, uint32_t* order, uint32_t count) REF_NOEXCEPT;

REF_END
