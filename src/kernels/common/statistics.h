// Statistics of a pass over wide results or examples, and how passes over parts combine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference/training/losses.h"
#include "reference/types.h"

namespace mantissa::kernels {

using WideStatistics = RefStatistics;

// Sums over examples that a loss finds.
using LossSums = RefLossSums;

}  // namespace mantissa::kernels
