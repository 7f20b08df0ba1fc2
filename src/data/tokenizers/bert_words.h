// The words that BERT's tokenizer divides texts into (Devlin et al. 2018), before they become
// pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "data/tokenizers/wordpiece.h"

namespace mantissa {

// A text in UTF-8 as the options say, without control characters.
std::string bert_normalised(std::string_view text, const WordPieceOptions& options);

// Calls visit(word) for each word of a normalised text: it is divided at white space and around
// punctuation, which is a word for each character.
void for_words(std::string_view normalised,
               const std::function<void(std::string_view word)>& visit);

// The same for a text without changes.
void for_bert_words(std::string_view text, const WordPieceOptions& options,
                    const std::function<void(std::string_view word)>& visit);

}  // namespace mantissa
