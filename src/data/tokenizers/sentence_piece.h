// Pieces of words by byte pair encoding, with the sentencepiece library (Kudo and Richardson 2018).
// Decoding the pieces gives the text back, except that "▁" becomes a space.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa {

// The first name of a vocabulary of pieces; no text has it as a token.
constexpr const char* kUnknownPiece = "<unk>";
constexpr const char* kPieceSpace = "\xE2\x96\x81";  // "▁"

constexpr int64_t kLeastPieces = 64;

// The pieces of a text, `size` of them at most, with all of its characters and the line feed: pieces
// that are merged earlier come earlier, so that their order says how texts are divided. The text is
// UTF-8 without NUL bytes. The same text gives the same pieces. Errors: more characters than pieces.
Result<std::vector<std::string>> learn_pieces(std::string_view text, int64_t size);

// The numbers of a text's pieces. All of its characters are among the pieces.
Result<std::vector<int>> encode_pieces(std::span<const std::string> pieces, std::string_view text);

// A piece as text.
std::string piece_text(std::string_view piece);

}  // namespace mantissa
