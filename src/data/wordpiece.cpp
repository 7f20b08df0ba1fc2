#include "data/wordpiece.h"

#include <algorithm>
#include <utility>

#include "data/bert_words.h"

namespace mantissa {
namespace {

Error not_utf8(std::string_view text, size_t at) {
  const auto line = std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n') + 1;
  return invalid_input("line " + std::to_string(line) + ", byte " + std::to_string(at) +
                       ": is not UTF-8");
}

Status check_piece(const std::string& piece, size_t number) {
  const std::string subject = "the tokenizer's piece " + std::to_string(number) + " ";
  if (piece.empty()) return invalid_input(subject + "is empty");
  if (piece.size() > kMostPieceBytes) {
    return invalid_input(subject + "is longer than " + std::to_string(kMostPieceBytes) + " bytes");
  }
  if (first_not_utf8(piece) < piece.size()) return invalid_input(subject + "is not UTF-8");
  return {};
}

}  // namespace

Result<WordPiece> WordPiece::create(std::vector<std::string> pieces,
                                    const WordPieceOptions& options) {
  if (pieces.empty() || std::ssize(pieces) > kMostPieces) {
    return invalid_input("the tokenizer has " + std::to_string(pieces.size()) + " pieces; 1 to " +
                         std::to_string(kMostPieces) + " are possible");
  }
  if (options.longest_word < 1) return invalid_input("the tokenizer's longest word has no letter");
  WordPiece result;
  result.options_ = options;
  result.pieces_ = std::move(pieces);
  const std::string& prefix = options.continuation;
  for (size_t i = 0; i < result.pieces_.size(); ++i) {
    const std::string& piece = result.pieces_[i];
    MANTISSA_RETURN_IF_ERROR(check_piece(piece, i));
    if (!result.numbers_.emplace(piece, static_cast<int32_t>(i)).second) {
      return invalid_input("the tokenizer has the piece '" + piece + "' twice");
    }
    if (piece.size() > prefix.size() && piece.starts_with(prefix)) {
      result.continuations_.emplace(std::string_view(piece).substr(prefix.size()),
                                    static_cast<int32_t>(i));
    }
    result.longest_piece_ = std::max(result.longest_piece_, piece.size());
  }
  const std::pair<const std::string&, int32_t&> specials[] = {{options.unknown, result.unknown_},
                                                              {options.first, result.first_},
                                                              {options.last, result.last_},
                                                              {options.padding, result.padding_},
                                                              {options.mask, result.mask_}};
  for (const auto& [name, number] : specials) {
    const auto found = result.numbers_.find(name);
    if (found == result.numbers_.end()) {
      return invalid_input("the tokenizer has no piece '" + name + "'");
    }
    number = found->second;
  }
  return result;
}

// The longest piece from the left, again and again; the word is unknown if one is not there.
void WordPiece::encode_word(std::string_view word, std::vector<int32_t>& tokens) const {
  int64_t characters = 0;
  for (const char c : word) characters += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  if (characters > options_.longest_word) return tokens.push_back(unknown_);
  const size_t before = tokens.size();
  for (size_t at = 0; at < word.size();) {
    const auto& numbers = at == 0 ? numbers_ : continuations_;
    size_t length = std::min(word.size() - at, longest_piece_);
    auto found = numbers.end();
    for (; length > 0; --length) {
      found = numbers.find(word.substr(at, length));
      if (found != numbers.end()) break;
    }
    if (length == 0) {
      tokens.resize(before);
      return tokens.push_back(unknown_);
    }
    tokens.push_back(found->second);
    at += length;
  }
}

void WordPiece::encode_part(std::string_view text, std::vector<int32_t>& tokens) const {
  for_bert_words(text, options_, [&](std::string_view word) { encode_word(word, tokens); });
}

Result<std::vector<int32_t>> WordPiece::encode(std::string_view text) const {
  if (const size_t wrong = first_not_utf8(text); wrong < text.size()) return not_utf8(text, wrong);
  const std::pair<std::string_view, int32_t> specials[] = {{options_.unknown, unknown_},
                                                           {options_.first, first_},
                                                           {options_.last, last_},
                                                           {options_.padding, padding_},
                                                           {options_.mask, mask_}};
  std::vector<int32_t> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t next = text.size();
    std::pair<std::string_view, int32_t> special = {{}, -1};
    for (const auto& each : specials) {
      const size_t found = text.find(each.first, at);
      if (found < next) {
        next = found;
        special = each;
      }
    }
    encode_part(text.substr(at, next - at), tokens);
    if (special.second >= 0) tokens.push_back(special.second);
    at = next + special.first.size();
  }
  return tokens;
}

std::string WordPiece::text_of(int32_t token) const {
  if (is_special(token)) return "";
  const std::string& piece = pieces_[static_cast<size_t>(token)];
  const std::string& prefix = options_.continuation;
  const bool goes_on = piece.size() > prefix.size() && piece.starts_with(prefix);
  return goes_on ? piece.substr(prefix.size()) : " " + piece;
}

}  // namespace mantissa
