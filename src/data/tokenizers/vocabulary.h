// Vocabularies of language models: characters, bytes, or pieces of words of three kinds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/tokenizers/byte_bpe/byte_bpe.h"
#include "data/tokenizers/byte_bpe/chat_template.h"
#include "data/tokenizers/common/code_point.h"
#include "data/tokenizers/wordpiece.h"

namespace mantissa {

// The number of a token in a vocabulary.
using Token = int32_t;

enum class Tokens : uint8_t { kCharacters, kBytes, kPieces, kWordPieces, kByteBpe };
Result<Tokens> parse_tokens(std::string_view text);
std::string_view tokens_name(Tokens tokens);

constexpr int64_t kMostCharacters = 65536;  // of a vocabulary that is made of a text, or pieces
constexpr int64_t kMostTokensOfAModel = int64_t{1} << 18;  // of a vocabulary that a model brings
constexpr int64_t kUsualPieces = 4000;

// The last token of a vocabulary for masked language models; WordPiece has a mask of its own.
constexpr const char* kMaskName = "[MASK]";

using PlaceText = std::function<std::string(std::string_view text, size_t at)>;

// Characters of a text that are no tokens of a vocabulary, and were left out.
struct UnknownCharacters {
  int64_t count = 0;
  std::string some = {};  // "'ö', 'ñ'": a few different ones
};
// "12 characters ('ö', 'ñ') are left out: the network does not know them"; "" if there are none.
std::string describe(const UnknownCharacters& unknown);

// The tokens that a network knows, in the order of their numbers. A token of characters is one code
// point as UTF-8. A token of bytes is "\x0A", and the vocabulary has all 256. For pieces see
// sentence_piece.h. The names tell which of these kinds the tokens are. Pieces of WordPiece and of
// byte-level BPE have their tokenizer beside them.
class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(std::vector<std::string> names) : names_(std::move(names)) {}

  // An error: more pieces than tokens can name.
  static Result<Vocabulary> of(WordPiece tokenizer);
  static Result<Vocabulary> of(ByteBpe tokenizer, std::optional<ChatTemplate> chat,
                               std::string chat_refused = "");

  const std::vector<std::string>& names() const { return names_; }
  // The tokenizer, or null.
  const WordPiece* wordpiece() const { return wordpiece_.get(); }
  const ByteBpe* byte_bpe() const { return byte_bpe_.get(); }
  // Its chat template, if a model has brought one.
  const std::optional<ChatTemplate>& chat() const { return chat_; }
  // Why a model's chat template is not followed here; "": it is, or there is none.
  const std::string& chat_refused() const { return chat_refused_; }
  // The tokenizer beside the names as an entry of a file's metadata; "": there is none.
  std::string tokenizer_entry() const;
  // The mask token, if there is one.
  std::optional<Token> mask() const;
  // Whether a token stands for something other than text, such as the mask.
  bool is_special(Token token) const;
  // The tokens with which a model ends a text, or its turn in a conversation. Only models that
  // bring their tokens have any.
  std::vector<Token> ends() const;
  Tokens tokens() const;
  // The token of line feeds, if there is one.
  std::optional<Token> line_feed() const;
  // The text's tokens. An error names a character that is no token, and its place. Words that
  // WordPiece does not know become its token for unknown words.
  Result<std::vector<Token>> encode(std::string_view text,
                                    const PlaceText& place = text_place) const;
  // The text without characters that are no tokens, which are counted. WordPiece has a token for
  // them, and bytes know all.
  std::string known_part(std::string_view text, UnknownCharacters& unknown) const;
  // The text of tokens. WordPiece's has a space before each word, and nothing for special tokens.
  std::string decode(std::span<const Token> tokens) const;
  // Code points, or bytes, of the text of tokens.
  int64_t characters(std::span<const Token> tokens) const;

 private:
  Status check_known(std::string_view text, const PlaceText& place) const;

  Result<std::vector<Token>> encode_words(std::string_view text) const;

  std::vector<std::string> names_;
  std::shared_ptr<const WordPiece> wordpiece_;
  std::shared_ptr<const ByteBpe> byte_bpe_;
  std::optional<ChatTemplate> chat_;
  std::string chat_refused_;
};

// The vocabulary of such an entry. Errors: it is damaged, or has too many tokens.
Result<Vocabulary> vocabulary_of_entry(const std::string& entry);

// The vocabulary of a text: its characters by code point, all bytes, or this many pieces of words,
// learned from it. Errors: byte-level BPE, which models bring; text that is not UTF-8 or has NUL
// bytes, with the place; more characters than networks have classes, or than the pieces asked for.
Result<Vocabulary> vocabulary_of(std::string_view text, Tokens tokens, int64_t pieces = 0);

}  // namespace mantissa
