// Sequences of a text, as a language model is measured with them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/text/text.h"

namespace mantissa {

struct TokenSequence {
  std::vector<int32_t> tokens, labels;
  // Those behind the last label are padding of a conversation.
  int64_t positions = 0;
};

// So many examples of a part of the text, or all, which lie evenly in it.
std::vector<TokenSequence> even_sequences(const Vocabulary& vocabulary,
                                          const std::vector<Token>& part,
                                          const TextOptions& options, int64_t count);

int64_t count_positions(const std::vector<TokenSequence>& sequences);

}  // namespace mantissa
