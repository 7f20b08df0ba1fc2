// All of a text as examples, whatever its length.
#pragma once

#include <cstdint>
#include <span>

#include "data/batches/examples.h"
#include "data/tokenizers/vocabulary.h"

namespace mantissa {

// The examples of text_examples, and one more for the tokens that are left: with padding behind
// them, labels of -1 there, and its own length. Each token but the first has a label. There are two
// tokens at least, and they outlive the examples.
Examples whole_text_examples(std::span<const Token> tokens, int64_t sequence, Token padding);

}  // namespace mantissa
