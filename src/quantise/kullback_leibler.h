// Where to clip, by the Kullback-Leibler divergence between numbers and clipped numbers.
#pragma once

#include <cstdint>
#include <span>

namespace mantissa::quantise {

// `counts` is a histogram of numbers >= 0 in cells of one width; the numbers get `levels` >= 1
// equally spaced values. Returns how many cells, from the first on, the grid should cover: the
// number i >= levels with the least divergence between P and Q. P is the clipped histogram: numbers
// beyond are counted in cell i - 1. Q spreads each of `levels` runs of cells evenly over its cells
// that are not empty. Q is made of numbers that are not clipped, so that clipping costs (S. Migacz,
// "8-bit inference with TensorRT", 2017). All cells if there are no more than `levels`. Of equal
// divergences the larger i.
int64_t least_divergence(std::span<const uint64_t> counts, int64_t levels);

}  // namespace mantissa::quantise
