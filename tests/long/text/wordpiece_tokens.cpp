// Prints tokens, for tests/long/text/wordpiece and tests/long/text/tokenizer_files.
//
//   wordpiece_tokens book.txt 4000              pieces learned from a text, a line each, an empty
//                                               line, and the numbers of the text's tokens
//   wordpiece_tokens texts.txt tokenizer.json   for each text, which a NUL ends, the numbers of its
//                                               tokens on a line, or the file's error alone
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "data/tokenizers/vocabulary.h"
#include "data/tokenizers/wordpiece.h"

namespace {

int print_learned(const std::string& text, int64_t pieces) {
  const auto vocabulary = mantissa::vocabulary_of(text, mantissa::Tokens::kWordPieces, pieces);
  if (!vocabulary.ok()) return std::fprintf(stderr, "%s\n", vocabulary.error().message.c_str()), 2;
  for (const std::string& piece : vocabulary->names()) std::cout << piece << "\n";
  std::cout << "\n";
  const auto tokens = vocabulary->encode(text);
  for (const mantissa::Token token : *tokens) std::cout << token << "\n";
  return 0;
}

int print_read(const std::string& texts, const char* path) {
  const auto tokenizer = mantissa::read_wordpiece(path);
  if (!tokenizer.ok()) return std::cout << tokenizer.error().message << "\n", 2;
  for (size_t at = 0; at < texts.size();) {
    const size_t end = std::min(texts.find('\0', at), texts.size());
    const auto tokens = tokenizer->encode(texts.substr(at, end - at));
    if (!tokens.ok()) return std::cout << tokens.error().message << "\n", 2;
    for (const int32_t token : *tokens) std::cout << token << " ";
    std::cout << "\n";
    at = end + 1;
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return std::fputs("usage: wordpiece_tokens TEXT PIECES|TOKENIZER\n", stderr), 2;
  std::ifstream file(words[1], std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const int64_t pieces = std::strtoll(words[2], nullptr, 10);
  return pieces > 0 ? print_learned(text.str(), pieces) : print_read(text.str(), words[2]);
}
