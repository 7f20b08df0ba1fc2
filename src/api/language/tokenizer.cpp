// The tokens of language models, for programs.
#include <string>
#include <utility>

#include "api/language/language_model_data.h"
#include "api/outcome.h"

namespace mantissa {
namespace {

Status check_token(const Vocabulary& vocabulary, Token token) {
  const auto count = std::ssize(vocabulary.names());
  if (token >= 0 && token < count) return {};
  return invalid_input("there is no token " + std::to_string(token) + "; the model has " +
                       std::to_string(count) + ", from 0 on");
}

}  // namespace

Result<std::vector<Token>> encode_messages(const Vocabulary& vocabulary,
                                           std::span<const ChatMessage> messages, bool asks) {
  if (!vocabulary.chat_refused().empty()) {
    return invalid_input("the model's chat template is not known here, and it goes on with texts "
                         "alone: " + vocabulary.chat_refused());
  }
  if (!vocabulary.chat()) {
    return invalid_input("the model has no chat template, and goes on with texts alone");
  }
  std::vector<ChatTurn> turns;
  for (const ChatMessage& message : messages) {
    const std::string& role = message.role;
    if (role != "system" && role != "user" && role != "assistant") {
      return invalid_input("the role of a message is none of system, user and assistant");
    }
    turns.push_back({role, message.content});
  }
  if (turns.empty()) return invalid_input("there is no message");
  return encode_chat(*vocabulary.byte_bpe(), *vocabulary.chat(), turns, asks);
}

std::string Tokenizer::kind() const { return std::string(tokens_name(data_->vocabulary.tokens())); }

int64_t Tokenizer::vocabulary_size() const { return std::ssize(data_->vocabulary.names()); }

bool Tokenizer::has_chat_template() const { return data_->vocabulary.chat().has_value(); }

SpecialTokens Tokenizer::special_tokens() const {
  SpecialTokens special;
  special.ends = data_->vocabulary.ends();
  const ByteBpe* const byte_bpe = data_->vocabulary.byte_bpe();
  if (byte_bpe == nullptr) return special;
  const ByteBpeOptions& options = byte_bpe->options();
  special.first = options.first;
  special.begin = options.begin;
  special.end = options.end;
  special.padding = options.padding;
  return special;
}

Outcome<std::vector<int32_t>> Tokenizer::encode(const std::string& text) const {
  MANTISSA_ASSIGN(std::vector<Token> tokens, data_->vocabulary.encode(text));
  return tokens;
}

Outcome<std::vector<int32_t>> Tokenizer::encode(const std::vector<ChatMessage>& messages,
                                                bool asks) const {
  MANTISSA_ASSIGN(std::vector<Token> tokens, encode_messages(data_->vocabulary, messages, asks));
  return tokens;
}

Outcome<std::string> Tokenizer::decode(const std::vector<int32_t>& tokens,
                                       bool with_special) const {
  for (const Token token : tokens) {
    MANTISSA_RETURN_IF_ERROR(check_token(data_->vocabulary, token));
  }
  if (!with_special) return data_->vocabulary.decode(tokens);
  const ByteBpe* const byte_bpe = data_->vocabulary.byte_bpe();
  if (byte_bpe == nullptr) {
    return invalid_input("special tokens have names in byte-level BPE alone, and the model knows " +
                         kind());
  }
  return byte_bpe->decode(tokens, true);
}

Outcome<std::string> Tokenizer::token(int32_t number) const {
  MANTISSA_RETURN_IF_ERROR(check_token(data_->vocabulary, number));
  return data_->vocabulary.names()[static_cast<size_t>(number)];
}

}  // namespace mantissa
