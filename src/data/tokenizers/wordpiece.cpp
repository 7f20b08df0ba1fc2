#include "data/tokenizers/wordpiece.h"

#include <algorithm>
#include <set>
#include <utility>

#include "data/tokenizers/bert_words.h"
#include "data/tokenizers/common/code_point.h"

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

struct Finders {
  AddedTokenFinder raw, normalised;
};

// If several texts are normalised to the same one, the first counts; in Hugging Face's tokenizers a
// hash table decides.
Result<Finders> finders_of(std::vector<AddedToken> tokens, const WordPieceOptions& options) {
  std::vector<AddedToken> raw, normal;
  std::vector<std::string> raw_texts, normal_texts;
  for (AddedToken& token : tokens) {
    if (!token.normalised) {
      raw_texts.push_back(token.text);
      raw.push_back(std::move(token));
      continue;
    }
    normal_texts.push_back(bert_normalised(token.text, options));
    if (normal_texts.back().empty()) {
      return invalid_input("nothing is left of the added token '" + token.text +
                           "' when it is normalised");
    }
    normal.push_back(std::move(token));
  }
  return Finders{{std::move(raw), std::move(raw_texts)},
                 {std::move(normal), std::move(normal_texts)}};
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
  result.model_pieces_ = std::ssize(result.pieces_);
  MANTISSA_RETURN_IF_ERROR(result.add_tokens());
  MANTISSA_RETURN_IF_ERROR(result.index_pieces());
  const std::pair<const std::string&, int32_t&> specials[] = {{options.unknown, result.unknown_},
                                                              {options.first, result.first_},
                                                              {options.last, result.last_},
                                                              {options.padding, result.padding_},
                                                              {options.mask, result.mask_}};
  std::vector<AddedToken> known;
  for (const auto& [name, number] : specials) {
    MANTISSA_ASSIGN(number, result.number_of(name));
    result.special_[static_cast<size_t>(number)] = true;
    known.push_back({.text = name, .number = number, .special = true});
  }
  MANTISSA_ASSIGN(Finders finders, finders_of(options.added.value_or(std::move(known)), options));
  result.finder_ = std::move(finders.raw);
  result.normalised_finder_ = std::move(finders.normalised);
  return result;
}

// Numbers that the vocabulary has are its own; others are the next ones.
Status WordPiece::add_tokens() {
  if (!options_.added) return {};
  std::set<std::string_view> texts;
  for (const AddedToken& token : *options_.added) {
    const std::string subject = "the added token '" + token.text + "' ";
    if (!texts.insert(token.text).second) return invalid_input(subject + "is there twice");
    if (token.number == std::ssize(pieces_)) {
      pieces_.push_back(token.text);
    } else if (token.number < 0 || token.number > std::ssize(pieces_) ||
               pieces_[static_cast<size_t>(token.number)] != token.text) {
      return invalid_input(subject + "has the number " + std::to_string(token.number) +
                           ", which is another piece's, or not the next one");
    }
  }
  return {};
}

Status WordPiece::index_pieces() {
  const std::string& prefix = options_.continuation;
  special_.resize(pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const std::string& piece = pieces_[i];
    MANTISSA_RETURN_IF_ERROR(check_piece(piece, i));
    if (static_cast<int64_t>(i) >= model_pieces_) continue;
    if (!numbers_.emplace(piece, static_cast<int32_t>(i)).second) {
      return invalid_input("the tokenizer has the piece '" + piece + "' twice");
    }
    if (piece.size() > prefix.size() && piece.starts_with(prefix)) {
      continuations_.emplace(std::string_view(piece).substr(prefix.size()),
                             static_cast<int32_t>(i));
    }
    longest_piece_ = std::max(longest_piece_, piece.size());
  }
  if (!options_.added) return {};
  for (const AddedToken& token : *options_.added) {
    special_[static_cast<size_t>(token.number)] = token.special;
  }
  return {};
}

Result<int32_t> WordPiece::number_of(const std::string& piece) const {
  if (const auto found = numbers_.find(piece); found != numbers_.end()) return found->second;
  for (const AddedToken& token : options_.added.value_or(std::vector<AddedToken>())) {
    if (token.text == piece) return token.number;
  }
  return invalid_input("the tokenizer has no piece '" + piece + "'");
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
  normalised_finder_.divide(
      bert_normalised(text, options_),
      [&](std::string_view part) {
        for_words(part, [&](std::string_view word) { encode_word(word, tokens); });
      },
      [&](int32_t token) { tokens.push_back(token); });
}

Result<std::vector<int32_t>> WordPiece::encode(std::string_view text) const {
  if (const size_t wrong = first_not_utf8(text); wrong < text.size()) return not_utf8(text, wrong);
  std::vector<int32_t> tokens;
  finder_.divide(
      text, [&](std::string_view part) { encode_part(part, tokens); },
      [&](int32_t token) { tokens.push_back(token); });
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
