// The key that a random number per element is a function of, besides the element.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace mantissa::kernels {

// Philox4x32-10 blocks with the counter {block, tensor, micro_batch, stream}.
struct RandomKey {
  RandomStream stream = RandomStream::kRound;
  uint64_t seed = 0;
  uint32_t micro_batch = 0;  // counted over the whole run; of updates the step
  uint32_t tensor = 0;

  constexpr std::array<uint32_t, 4> block(uint32_t index) const {
    return philox({index, tensor, micro_batch, static_cast<uint32_t>(stream)},
                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  }
};

}  // namespace mantissa::kernels
