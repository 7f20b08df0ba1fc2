// The grid of a block of weights by least squares.
#pragma once

#include <span>

#include "numerics/block_grid.h"

namespace mantissa::quantise {

// The grid of a block's numbers with the least squared error of their nearest steps, where each
// square counts as much as its weight says, which is above 0. Several scales are tried that clip
// more or less, each fitted once by least squares to the steps that it gives; the result is never
// worse than the grid that clips nothing (whole_grid), which q8_0 gets in any case.
BlockGrid least_squares_grid(BlockKind kind, std::span<const double> numbers,
                             std::span<const double> weights);

}  // namespace mantissa::quantise
