// Conversations packed for training: several of them lie one behind the other in a sequence.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/text/conversations.h"

namespace mantissa {

struct PackedExamples {
  Examples examples;
  int64_t bytes = 0;  // that they keep beside the tokens
  std::string note;   // how much padding packing saves
};

// Examples of a part of conversations, the longest first, each in the sequence with the least room
// that is enough for it (best fit decreasing), so the same tokens give the same examples. Tensors are
// those of answer_examples, and kStartTensor: the position with which each token's conversation
// begins, of padding with which the padding begins. The last token of a conversation is only
// predicted, and takes no position.
PackedExamples packed_answer_examples(std::span<const Token> tokens, int64_t sequence,
                                      Token padding);

}  // namespace mantissa
