// Prints tokens, for tests/long/text/byte_bpe.
//
//   byte_bpe_tokens texts.txt model.gguf|FOLDER   for each text, which a NUL ends, the numbers of
//   its
//                                                 tokens on a line, or an error on a line; or the
//                                                 file's error alone. FOLDER: of a tokenizer.json
// Special tokens in texts are tokens. Tokens that do not give back the text end the program.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"

namespace {

using mantissa::ByteBpe;

mantissa::Result<ByteBpe> read_tokenizer(const std::string& path) {
  if (!path.ends_with(".gguf")) return mantissa::read_byte_bpe(path);
  const auto file = mantissa::GgufFile::open(path);
  if (!file.ok()) return file.error();
  return mantissa::byte_bpe_of(*file);
}

int print_tokens(const std::string& texts, const ByteBpe& tokenizer) {
  for (size_t at = 0; at < texts.size();) {
    const size_t end = std::min(texts.find('\0', at), texts.size());
    const std::string text = texts.substr(at, end - at);
    at = end + 1;
    const auto tokens = tokenizer.encode(text, ByteBpe::Special::kAreTokens);
    if (!tokens.ok()) {
      std::cout << "error: " << tokens.error().message << "\n";
      continue;
    }
    for (const int32_t token : *tokens) std::cout << token << " ";
    std::cout << "\n";
    if (tokenizer.decode(*tokens, true) == text || tokenizer.options().composes) continue;
    std::cout << "other text: " << tokenizer.decode(*tokens, true) << "\n";
    return 1;
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return std::fputs("usage: byte_bpe_tokens TEXTS TOKENIZER\n", stderr), 2;
  std::ifstream file(words[1], std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const auto tokenizer = read_tokenizer(words[2]);
  if (!tokenizer.ok()) return std::cout << tokenizer.error().message << "\n", 2;
  return print_tokens(text.str(), *tokenizer);
}
