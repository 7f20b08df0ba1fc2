#include "data/tokenizers/vocabulary.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "data/tokenizers/common/code_point.h"
#include "data/tokenizers/sentence_piece.h"
#include "data/tokenizers/wordpiece_learner.h"

namespace mantissa {
namespace {

constexpr size_t kBytes = 256;

std::string byte_name(size_t byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\x%02X", static_cast<unsigned>(byte));
  return text.data();
}

// Calls visit(character, place) for each character. Its error, or the error of text that is not
// UTF-8.
template <typename Visit>
Status for_characters(std::string_view text, const PlaceText& place, const Visit& visit,
                      const std::string& advice = "") {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.number < 0) {
      return invalid_input(place(text, at) + ": is not UTF-8" + advice);
    }
    if (text[at] == '\0') {
      return invalid_input(place(text, at) + ": has a NUL byte, so it is no text" + advice);
    }
    MANTISSA_RETURN_IF_ERROR(visit(text.substr(at, point.length), at));
    at += point.length;
  }
  return {};
}

}  // namespace

Result<Tokens> parse_tokens(std::string_view text) {
  for (const Tokens tokens : {Tokens::kCharacters, Tokens::kBytes, Tokens::kPieces,
                              Tokens::kWordPieces, Tokens::kByteBpe}) {
    if (text == tokens_name(tokens)) return tokens;
  }
  return invalid_input("unknown tokens '" + std::string(text) +
                       "'; choose characters, bytes, sentencepiece or wordpiece");
}

std::string_view tokens_name(Tokens tokens) {
  constexpr std::array<std::string_view, 5> kNames = {"characters", "bytes", "sentencepiece",
                                                      "wordpiece", "byte-bpe"};
  return kNames[static_cast<size_t>(tokens)];
}

Result<Vocabulary> Vocabulary::of(WordPiece tokenizer) {
  if (std::ssize(tokenizer.pieces()) > kMostCharacters) {
    return invalid_input("the tokenizer has " + std::to_string(tokenizer.pieces().size()) +
                         " pieces; networks know at most " + std::to_string(kMostCharacters));
  }
  Vocabulary vocabulary(tokenizer.pieces());
  vocabulary.wordpiece_ = std::make_shared<const WordPiece>(std::move(tokenizer));
  return vocabulary;
}

Result<Vocabulary> Vocabulary::of(ByteBpe tokenizer, std::optional<ChatTemplate> chat,
                                  std::string chat_refused) {
  if (std::ssize(tokenizer.tokens()) > kMostTokensOfAModel) {
    return invalid_input("the tokenizer has " + std::to_string(tokenizer.tokens().size()) +
                         " tokens; networks know at most " +
                         std::to_string(kMostTokensOfAModel));
  }
  Vocabulary vocabulary(tokenizer.tokens());
  vocabulary.byte_bpe_ = std::make_shared<const ByteBpe>(std::move(tokenizer));
  vocabulary.chat_ = std::move(chat);
  vocabulary.chat_refused_ = std::move(chat_refused);
  return vocabulary;
}

std::string Vocabulary::tokenizer_entry() const {
  if (byte_bpe_) return to_json(*byte_bpe_, chat_, chat_refused_);
  return wordpiece_ ? to_json(*wordpiece_) : "";
}

Result<Vocabulary> vocabulary_of_entry(const std::string& entry) {
  if (is_byte_bpe(entry)) {
    MANTISSA_ASSIGN(ByteBpeEntry parsed, parse_byte_bpe(entry));
    return Vocabulary::of(std::move(parsed.tokenizer), std::move(parsed.chat),
                          std::move(parsed.chat_refused));
  }
  MANTISSA_ASSIGN(WordPiece tokenizer, parse_wordpiece(entry));
  return Vocabulary::of(std::move(tokenizer));
}

std::optional<Token> Vocabulary::mask() const {
  if (byte_bpe_) return std::nullopt;
  if (wordpiece_) return static_cast<Token>(wordpiece_->mask());
  if (names_.empty() || names_.back() != kMaskName) return std::nullopt;
  return static_cast<Token>(names_.size() - 1);
}

bool Vocabulary::is_special(Token token) const {
  if (byte_bpe_) return byte_bpe_->is_special(token);
  return wordpiece_ ? wordpiece_->is_special(token) : token == mask();
}

std::vector<Token> Vocabulary::ends() const {
  std::vector<Token> ends;
  if (!byte_bpe_) return ends;
  if (byte_bpe_->options().end >= 0) ends.push_back(byte_bpe_->options().end);
  const auto of_turn = chat_ ? end_of_turn(*byte_bpe_, *chat_) : std::nullopt;
  if (of_turn && *of_turn != byte_bpe_->options().end) ends.push_back(*of_turn);
  return ends;
}

Tokens Vocabulary::tokens() const {
  if (wordpiece_) return Tokens::kWordPieces;
  if (byte_bpe_) return Tokens::kByteBpe;
  if (!names_.empty() && names_[0] == kUnknownPiece) return Tokens::kPieces;
  return names_.size() == kBytes && names_[0] == byte_name(0) ? Tokens::kBytes
                                                              : Tokens::kCharacters;
}

std::optional<Token> Vocabulary::line_feed() const {
  if (tokens() == Tokens::kBytes) return Token{'\n'};
  if (wordpiece_) return std::nullopt;             // a space like others
  const char* name = byte_bpe_ ? "\u010a" : "\n";  // its character in GPT-2's alphabet
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) return std::nullopt;
  return static_cast<Token>(found - names_.begin());
}

Status Vocabulary::check_known(std::string_view text, const PlaceText& place) const {
  const std::set<std::string_view> names(names_.begin(), names_.end());
  const bool has_pieces = tokens() == Tokens::kPieces;
  return for_characters(text, place, [&](std::string_view character, size_t at) {
    const bool is_space = has_pieces && character == " ";
    if (names.contains(is_space ? kPieceSpace : character)) return Status();
    return Status(invalid_input(
        place(text, at) + ": the network does not know '" + std::string(character) +
        "'; it knows " + std::to_string(names_.size()) + (has_pieces ? " pieces" : " characters")));
  });
}

std::string describe(const UnknownCharacters& unknown) {
  if (unknown.count == 0) return "";
  return std::to_string(unknown.count) + " characters (" + unknown.some +
         ") are left out: the network does not know them";
}

std::string Vocabulary::known_part(std::string_view text, UnknownCharacters& unknown) const {
  constexpr size_t kMostNamed = 5;
  const Tokens kind = tokens();
  if (wordpiece_ || byte_bpe_ || kind == Tokens::kBytes) return std::string(text);
  std::set<std::string_view> known(names_.begin(), names_.end()), different;
  if (kind == Tokens::kPieces && known.contains(kPieceSpace)) known.insert(" ");
  std::string part;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const std::string_view character = text.substr(at, point.length);
    at += point.length;
    // Invalid text is an error later, when it is encoded.
    if (point.number <= 0 || known.contains(character)) {
      part += character;
      continue;
    }
    ++unknown.count;
    if (different.size() >= kMostNamed || !different.insert(character).second) continue;
    const std::string name = "'" + std::string(character) + "'";
    if (unknown.some.find(name) != std::string::npos) continue;
    unknown.some += (unknown.some.empty() ? "" : ", ") + name;
  }
  return part;
}

Result<std::vector<Token>> Vocabulary::encode_words(std::string_view text) const {
  std::vector<Token> tokens;
  while (!text.empty()) {
    MANTISSA_ASSIGN(const std::vector<int32_t> numbers, wordpiece_->encode(next_text_part(text)));
    tokens.insert(tokens.end(), numbers.begin(), numbers.end());
  }
  return tokens;
}

Result<std::vector<Token>> Vocabulary::encode(std::string_view text, const PlaceText& place) const {
  if (wordpiece_ || byte_bpe_) {
    MANTISSA_RETURN_IF_ERROR(
        for_characters(text, place, [](std::string_view, size_t) { return Status(); }));
    if (wordpiece_) return encode_words(text);
    return byte_bpe_->encode(text, ByteBpe::Special::kAreText);
  }
  std::vector<Token> tokens;
  tokens.reserve(text.size());
  if (this->tokens() == Tokens::kBytes) {
    for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
    return tokens;
  }
  MANTISSA_RETURN_IF_ERROR(check_known(text, place));
  if (this->tokens() == Tokens::kPieces) {
    MANTISSA_ASSIGN(const std::vector<int> numbers, encode_pieces(names_, text));
    tokens.assign(numbers.begin(), numbers.end());
    return tokens;
  }
  std::map<std::string_view, Token> numbers;
  for (size_t i = 0; i < names_.size(); ++i) numbers.emplace(names_[i], static_cast<Token>(i));
  MANTISSA_RETURN_IF_ERROR(for_characters(text, place, [&](std::string_view character, size_t) {
    tokens.push_back(numbers.at(character));
    return Status();
  }));
  return tokens;
}

std::string Vocabulary::decode(std::span<const Token> tokens) const {
  const Tokens kind = this->tokens();
  std::string text;
  for (const Token token : tokens) {
    if (token < 0 || token >= std::ssize(names_)) continue;
    if (byte_bpe_) {
      text += byte_bpe_->decode(std::span(&token, 1), false);
      continue;
    }
    if (wordpiece_) {
      text += wordpiece_->text_of(token);
      continue;
    }
    text += kind == Tokens::kBytes    ? std::string(1, static_cast<char>(token))
            : kind == Tokens::kPieces ? piece_text(names_[token])
                                      : names_[token];
  }
  return text;
}

int64_t Vocabulary::characters(std::span<const Token> tokens) const {
  const bool has_words = this->tokens() == Tokens::kPieces || wordpiece_ || byte_bpe_;
  if (!has_words) return std::ssize(tokens);
  const std::string text = decode(tokens);
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

Result<Vocabulary> vocabulary_of(std::string_view text, Tokens tokens, int64_t pieces) {
  std::vector<std::string> names;
  if (tokens == Tokens::kByteBpe) {
    return invalid_input("tokens byte-bpe: come with a language model that import read (--from)");
  }
  if (tokens == Tokens::kBytes) {
    for (size_t byte = 0; byte < kBytes; ++byte) names.push_back(byte_name(byte));
    return Vocabulary(std::move(names));
  }
  // The order of UTF-8 is the one of code points.
  std::set<std::string_view> characters;
  MANTISSA_RETURN_IF_ERROR(for_characters(
      text, text_place,
      [&](std::string_view character, size_t) {
        characters.insert(character);
        return Status();
      },
      "; --tokens bytes takes any bytes"));
  if (tokens == Tokens::kWordPieces) {
    MANTISSA_ASSIGN(WordPiece tokenizer, learn_wordpiece(text, pieces));
    return Vocabulary::of(std::move(tokenizer));
  }
  if (tokens == Tokens::kPieces) {
    MANTISSA_ASSIGN(names, learn_pieces(text, pieces));
    return Vocabulary(std::move(names));
  }
  if (std::ssize(characters) > kMostCharacters) {
    return invalid_input("has " + std::to_string(characters.size()) +
                         " different characters; networks know at most " +
                         std::to_string(kMostCharacters) + "; --tokens bytes has 256");
  }
  if (characters.size() < 2) return invalid_input("has less than two different characters");
  return Vocabulary({characters.begin(), characters.end()});
}

}  // namespace mantissa
