// For tests: a vocabulary of all bytes but one, a few merges, and special tokens.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizers/byte_bpe/byte_alphabet.h"
#include "data/tokenizers/byte_bpe/byte_bpe.h"

namespace mantissa {

// Byte b is token b, but 4 has none: token 4 is "<|end|>". 256 to 261 are merges, then come the
// user's own "<tool>" and a special token.
inline std::vector<std::string> test_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(byte == 4 ? "<|end|>" : character_of_byte(static_cast<uint8_t>(byte)));
  }
  for (const char* token : {"ab", "bc", "abc", "aa", "\u0120a", "whole", "<tool>", "<|user|>"}) {
    tokens.push_back(token);
  }
  return tokens;
}

inline std::vector<ByteBpe::Merge> test_merges() {
  return {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}, {"\u0120", "a"}};
}

inline ByteBpeOptions test_options() {
  ByteBpeOptions options;
  options.added = {{.text = "<|end|>", .number = 4, .special = true},
                   {.text = "<tool>", .number = 262},
                   {.text = "<|user|>", .number = 263, .special = true}};
  return options;
}

}  // namespace mantissa
