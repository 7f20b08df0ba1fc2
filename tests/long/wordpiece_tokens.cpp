// Learns WordPiece from a text and prints its pieces, a line each, an empty line, and the numbers
// of the text's tokens: for tests/long/wordpiece.
//
//   wordpiece_tokens book.txt 4000
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "data/vocabulary.h"

int main(int count, char** words) {
  if (count != 3) return std::fputs("usage: wordpiece_tokens TEXT PIECES\n", stderr), 2;
  std::ifstream file(words[1], std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const auto vocabulary = mantissa::vocabulary_of(text.str(), mantissa::Tokens::kWordPieces,
                                                  std::strtoll(words[2], nullptr, 10));
  if (!vocabulary.ok()) return std::fprintf(stderr, "%s\n", vocabulary.error().message.c_str()), 2;
  for (const std::string& piece : vocabulary->names()) std::cout << piece << "\n";
  std::cout << "\n";
  const auto tokens = vocabulary->encode(text.str());
  for (const mantissa::Token token : *tokens) std::cout << token << "\n";
}
