// Weights of few bits, several in a byte.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mantissa::device {

// Weights are mantissas * 2^shift. Mantissas of 4 bits lie two in a byte, of 2 bits four, in two's
// complement, the first in the lowest bits.
struct PackedWeights {
  int bits = 8;  // 8, 4 or 2
  int shift = 0;
  std::vector<int64_t> bytes;  // signed if bits is 8
};

// With the fewest bits that hold all weights.
PackedWeights pack_weights(std::span<const int8_t> weights);

}  // namespace mantissa::device
