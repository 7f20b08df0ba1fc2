// WordPiece, the tokens of BERT (Devlin et al. 2018): words are divided at white space and
// punctuation, and each into the longest pieces that the vocabulary has, from the left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "data/tokenizers/common/added_tokens.h"

namespace mantissa {

struct WordPieceOptions {
  bool lower_case = true;
  bool strip_accents = true;
  bool split_chinese = true;   // each of these characters is a word
  int64_t longest_word = 100;  // characters; a longer word is unknown
  std::string unknown = "[UNK]", first = "[CLS]", last = "[SEP]", padding = "[PAD]",
              mask = "[MASK]";
  std::string continuation = "##";  // begins pieces that do not begin a word
  int64_t most_tokens = 0;          // of a text, special ones included; 0: no limit
  // Tokens that are found in a text before it is divided into words. Numbers beyond the pieces are
  // the next ones, in this order. Left out: the five special tokens above.
  std::optional<std::vector<AddedToken>> added = {};
  bool operator==(const WordPieceOptions&) const = default;
};

constexpr int64_t kMostPieces = int64_t{1} << 22;
constexpr size_t kMostPieceBytes = 1024;

// Moves, and is not copied.
class WordPiece {
 public:
  WordPiece(WordPiece&&) = default;
  WordPiece& operator=(WordPiece&&) = default;

  // Errors: a vocabulary that is empty, too large or has a piece twice, and one without the special
  // tokens; a piece that is not UTF-8; an added token that is there twice, or whose number belongs
  // to another piece, or is not the next.
  static Result<WordPiece> create(std::vector<std::string> pieces,
                                  const WordPieceOptions& options = {});

  // All tokens: the model's, then the added ones.
  const std::vector<std::string>& pieces() const { return pieces_; }
  std::vector<std::string> model_pieces() const {
    return {pieces_.begin(), pieces_.begin() + model_pieces_};
  }
  const WordPieceOptions& options() const { return options_; }
  int32_t unknown() const { return unknown_; }
  int32_t first() const { return first_; }
  int32_t last() const { return last_; }
  int32_t padding() const { return padding_; }
  int32_t mask() const { return mask_; }
  // Whether a token stands for something other than text.
  bool is_special(int32_t token) const { return special_[static_cast<size_t>(token)]; }

  // The tokens of a text, without special ones around them. Added tokens in the text ("[MASK]") are
  // themselves. Control characters, NUL among them, are left out. An error names the place of
  // bytes that are not UTF-8.
  Result<std::vector<int32_t>> encode(std::string_view text) const;

  // A token's piece as text: after a space if it begins a word, and empty if it is special.
  std::string text_of(int32_t token) const;

 private:
  WordPiece() = default;
  Status add_tokens();
  Status index_pieces();
  Result<int32_t> number_of(const std::string& piece) const;
  void encode_part(std::string_view text, std::vector<int32_t>& tokens) const;
  void encode_word(std::string_view word, std::vector<int32_t>& tokens) const;

  std::vector<std::string> pieces_;
  // Keys are views of pieces_, whose strings do not move with the vector.
  std::unordered_map<std::string_view, int32_t> numbers_;
  std::unordered_map<std::string_view, int32_t> continuations_;  // without "##"
  WordPieceOptions options_;
  int64_t model_pieces_ = 0;                     // the first of pieces_
  std::vector<bool> special_;                    // by piece
  AddedTokenFinder finder_, normalised_finder_;  // in the text unchanged, and normalised
  int32_t unknown_ = -1, first_ = -1, last_ = -1, padding_ = -1, mask_ = -1;
  size_t longest_piece_ = 0;  // bytes
};

// Reads vocab.txt (a piece on each line) or tokenizer.json (Hugging Face's, with a WordPiece
// model). In a folder it reads tokenizer.json, else vocab.txt. It also reads tokenizer_config.json,
// special_tokens_map.json and added_tokens.json beside them. Errors name the file: tokenizers of
// other kinds, or with unsupported parts (tokenizer_files.h), and files that are no tokenizers.
Result<WordPiece> read_wordpiece(const std::filesystem::path& path);

// As an entry of a file's metadata, and back.
std::string to_json(const WordPiece& tokenizer);
Result<WordPiece> parse_wordpiece(const std::string& json);

}  // namespace mantissa
