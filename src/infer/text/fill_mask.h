// Missing tokens of a text, found by a masked language model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "infer/frozen_network.h"

namespace mantissa {

struct TokenGuess {
  std::string token;
  double probability = 0;
};

// For each "[MASK]" of the text the likeliest tokens, `top` of them, the mask itself left out.
// Errors: another network, no mask, a text longer than the network's sequence, characters that the
// network does not know.
Result<std::vector<std::vector<TokenGuess>>> fill_masks(FrozenNetwork& network,
                                                        const std::string& text, int64_t top,
                                                        ThreadPool& pool, Isa isa);

}  // namespace mantissa
