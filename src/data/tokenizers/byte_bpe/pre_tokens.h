// The pieces that byte-level BPE tokenizers divide a text into before they merge bytes: GPT-2's
// regular expression and its successors, by hand. Unicode's categories are utf8proc's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace mantissa {

enum class PreTokenizer : uint8_t {
  kGpt2,    // contractions; letters, digits or others, after one space; white space
  kSmolLm,  // each digit by itself, then as GPT-2 between them
  kLlama3,  // up to three digits; letters after any one character; line ends by themselves
  kQwen2    // the same with one digit
};

// llama.cpp's name of it: "gpt-2", "smollm", "llama-bpe", "qwen2".
std::string_view pre_tokenizer_name(PreTokenizer kind);
std::optional<PreTokenizer> parse_pre_tokenizer(std::string_view name);

// The regular expression that Hugging Face's tokenizer.json has for it; "" for the first two, which
// have none there.
std::string_view pre_tokenizer_pattern(PreTokenizer kind);

// Calls visit(piece) for each piece of a text, in order: together they are the text. It is UTF-8.
void for_pre_tokens(std::string_view text, PreTokenizer kind,
                    const std::function<void(std::string_view piece)>& visit);

}  // namespace mantissa
