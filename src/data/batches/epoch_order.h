// The order of training examples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mantissa {

// A uniform permutation of 0 ... count - 1, a pure function of (seed, epoch). 0 <= count < 2^32.
std::vector<uint32_t> epoch_order(uint64_t seed, uint32_t epoch, int64_t count);

// The same into a buffer of `count` elements.
void fill_epoch_order(uint64_t seed, uint32_t epoch, std::span<uint32_t> order) noexcept;

}  // namespace mantissa
