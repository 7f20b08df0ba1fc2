// Chat templates: how turns of a conversation become one text. Models have them as programs in
// Jinja, which is not interpreted here: the programs of some families are known by their text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/tokenizers/byte_bpe/byte_bpe.h"

namespace mantissa {

struct ChatTurn {
  std::string role;  // "system", "user", "assistant"
  std::string text;
};

struct ChatTemplate {
  enum class Kind : uint8_t {
    kChatMl,  // <|im_start|>ROLE\nTEXT<|im_end|>\n: SmolLM2, Qwen2
    kLlama3   // <|start_header_id|>ROLE<|end_header_id|>\n\nTEXT<|eot_id|>
  };
  Kind kind = Kind::kChatMl;
  std::string system = {};   // the system turn of conversations without one; "": none
  bool always_asks = false;  // Llama 3's first template begins an answer in any case
  bool operator==(const ChatTemplate&) const = default;
};

// The template that a program in Jinja is. Line ends in its texts may be written as \n. An error
// begins with the program's first characters: it is none of those that are known.
Result<ChatTemplate> chat_template_of(std::string_view jinja);

// The template as such a program: chat_template_of reads it back.
std::string to_jinja(const ChatTemplate& chat);

// "ChatML, with the system turn "You are ..." if there is none".
std::string describe(const ChatTemplate& chat);

// The tokens of a conversation. `asks`: at the end the assistant's turn begins. Special tokens come
// from the template only: "<|im_end|>" in a turn is text. Errors: a tokenizer without the
// template's tokens, texts that cannot be encoded.
Result<std::vector<int32_t>> encode_chat(const ByteBpe& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatTurn> turns, bool asks);

// The tokens of a conversation, and which of them are answers: the text of the assistant's turns,
// and the token that ends each.
struct AnsweredChat {
  std::vector<int32_t> tokens;
  std::vector<bool> answers;  // of each token
};

// The same for training. An answer's tokens begin where those of the open turn end, as they do when
// a model answers: a space at its beginning is not joined to the line end before it.
Result<AnsweredChat> encode_answers(const ByteBpe& tokenizer, const ChatTemplate& chat,
                                    std::span<const ChatTurn> turns);

// The token that ends a turn; none if the tokenizer lacks it.
std::optional<int32_t> end_of_turn(const ByteBpe& tokenizer, const ChatTemplate& chat);

}  // namespace mantissa
