// Conversations as data for language models that follow instructions: JSON lines, an example each,
// {"messages": [{"role": ..., "content": ...}, ...]} or {"prompt": ..., "completion": ...}. Only
// tokens of answers are predicted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/batches/examples.h"
#include "data/text/text.h"
#include "data/tokenizers/vocabulary.h"

namespace mantissa {

// Tokens of conversations lie one example behind the other. Two bits beside a token's number say
// that an example begins with it, and that it belongs to an answer.
constexpr Token kFirstMark = Token{1} << 29, kAnswerMark = Token{1} << 30;
constexpr Token kTokenMask = kFirstMark - 1;

// Whether a file has conversations for a model with this vocabulary: it is named NAME.jsonl, and
// the model has brought its tokens.
bool has_conversations(const std::string& path, const Vocabulary& vocabulary);

// Whether these tokens are those of conversations.
bool are_conversations(std::span<const Token> tokens);

struct ConversationParts {
  std::vector<Token> train, validation, test;
};

// The examples of JSON lines in three parts: a twentieth of the first questions, at least one, is
// for testing, as many are for validation. Examples with the same first question are in one part.
// An example has at most sequence + 1 tokens: a longer one is cut, or left out if no token of an
// answer is left, as is one without an answer. Notes say how many, and which entries are not read.
// Errors, with the line: no JSON, other entries, roles and types, texts without tokens, turns for a
// model without a chat template; less than three different questions.
Result<ConversationParts> read_conversations(std::string_view text, const Vocabulary& vocabulary,
                                             int64_t sequence, std::vector<std::string>& notes);

// The places in a part where its examples begin, and the end of the last.
std::vector<int64_t> example_begins(std::span<const Token> tokens);

// Examples of a part. An example's tokens, padding behind them, and as labels the token after each
// that belongs to an answer, else -1. Lengths reach to the last label.
Examples answer_examples(std::span<const Token> tokens, int64_t sequence, Token padding);

// The token in the place of those that a conversation does not fill.
Token padding_of(const Vocabulary& vocabulary);

// The tokens that the labels of all examples name.
std::vector<Token> predicted_tokens(std::span<const Token> tokens, int64_t sequence);

}  // namespace mantissa
