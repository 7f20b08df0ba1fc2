// Where to clip, by the divergence of Kullback and Leibler between numbers and clipped numbers.
#pragma once

#include <cstdint>
#include <span>

namespace mantissa::quantise {

// `counts` is a histogram of numbers >= 0 in cells of one width; the numbers get `levels` >= 1
// equally spaced values. Returns how many cells from the first on the grid should reach over: the
// number i >= levels whose clipped histogram P (numbers beyond are counted in cell i - 1) diverges
// least from Q, which spreads each of `levels` runs of cells evenly over those of its cells that
// are not empty. Q is made of numbers that are not clipped, so that clipping costs (S. Migacz,
// "8-bit inference with TensorRT", 2017). All cells where there are no more than `levels`. Of
// equal divergences the larger i.
int64_t least_divergence(std::span<const uint64_t> counts, int64_t levels);

}  // namespace mantissa::quantise
