// The key that a random number per element is a function of, besides the element.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "reference/types.h"

namespace mantissa::kernels {

using RandomKey = RefRandomKey;

// Block `index` of the key's numbers.
constexpr std::array<uint32_t, 4> random_block(const RandomKey& key, uint32_t index) {
  return philox({index, key.tensor, key.micro_batch, static_cast<uint32_t>(key.stream)},
                {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
}

}  // namespace mantissa::kernels
