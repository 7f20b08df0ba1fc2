// WordPiece vocabularies learned from a text, as Hugging Face's trainer learns them: byte pair
// encoding of BERT's words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "data/tokenizers/wordpiece.h"

namespace mantissa {

// A tokenizer of `size` pieces: the special tokens, then all characters of the text's words in the
// order of their code points, those that stand inside a word also with the continuation before
// them, and then merges of two neighbouring pieces, the most frequent pair first; of pairs as
// frequent the one whose pieces have lower numbers. Words longer than options.longest_word are left
// out. The text is UTF-8. Errors: no word, more characters than pieces, fewer pairs.
Result<WordPiece> learn_wordpiece(std::string_view text, int64_t size,
                                  const WordPieceOptions& options = {});

// The first part of a long text: at most 64 KiB. It ends after white space if there is any, so that
// words stay whole. `text` becomes the rest.
std::string_view next_text_part(std::string_view& text);

}  // namespace mantissa
