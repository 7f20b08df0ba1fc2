// Byte-level byte pair encoding, the tokens of GPT-2, SmolLM, Llama 3 and Qwen: a text is divided
// into pieces, and of each piece's bytes the pair with the lowest rank is merged until none is left
// (Sennrich et al. 2015; Radford et al. 2019).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "data/tokenizers/byte_bpe/pre_tokens.h"
#include "data/tokenizers/common/added_tokens.h"

namespace mantissa {

struct ByteBpeOptions {
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  bool composes = false;        // texts are brought to Unicode's form NFC first
  bool ignores_merges = false;  // a piece that is a token is that token, whatever the merges say
  std::vector<AddedToken> added = {};  // found in a text before it is divided
  // Tokens around every text, and those that end a text or fill a batch; -1: none.
  int32_t first = -1, last = -1;
  int32_t begin = -1, end = -1, padding = -1;
  bool operator==(const ByteBpeOptions&) const = default;
};

constexpr size_t kMostByteBpeTokens = size_t{1} << 19;

// Moves, and is not copied.
class ByteBpe {
 public:
  using Merge = std::pair<std::string, std::string>;

  // `tokens`: by number, in GPT-2's alphabet (byte_alphabet.h); added ones as their own text, other
  // tokens that the alphabet cannot write are never made. `merges`: by rank, in the alphabet.
  // Errors: no token or too many, one twice, a merge of or into something that is no token, a
  // number that is none of a token.
  static Result<ByteBpe> create(std::vector<std::string> tokens, const std::vector<Merge>& merges,
                                ByteBpeOptions options);

  const std::vector<std::string>& tokens() const { return tokens_; }
  const ByteBpeOptions& options() const { return options_; }
  // By rank, in the alphabet.
  std::vector<Merge> merges() const;
  int64_t merge_count() const { return static_cast<int64_t>(merges_.size()); }
  // Whether a token stands for something other than text.
  bool is_special(int32_t token) const { return special_[static_cast<size_t>(token)]; }
  // Bytes that no token stands for: a text with one of them has no tokens.
  std::string bytes_without_token() const;

  // Whether "<|im_end|>" in a text is plain text, or the token, as in templates.
  enum class Special : uint8_t { kAreText, kAreTokens };

  // The tokens of a text, without those around it. Errors name a place: bytes that are not UTF-8, a
  // byte that has no token (other programs leave it out without a word).
  Result<std::vector<int32_t>> encode(std::string_view text, Special special) const;

  // The bytes that tokens stand for. Special tokens give their text, or nothing.
  std::string decode(std::span<const int32_t> tokens, bool with_special) const;

 private:
  struct MergeResult {
    int32_t rank, token;
  };

  ByteBpe() = default;
  Status index_tokens();
  Status index_merges(const std::vector<Merge>& merges);
  Status index_added();
  std::string normalised(std::string_view text) const;
  bool encode_piece(std::string_view piece, std::vector<int32_t>& tokens) const;
  const MergeResult* merge_of(int32_t left, int32_t right) const;
  Error unknown_byte(std::string_view text) const;

  std::vector<std::string> tokens_;
  std::vector<std::string> bytes_;  // of each token
  std::vector<bool> special_;
  std::unordered_map<std::string_view, int32_t> numbers_;  // by the text in the alphabet
  std::unordered_map<std::string_view, int32_t> wholes_;   // by bytes, if merges are ignored
  std::array<int32_t, 256> byte_tokens_{};
  std::unordered_map<uint64_t, MergeResult> merges_;  // by left << 32 | right
  ByteBpeOptions options_;
  // Found in the text as it is, or normalised; first without the special tokens, then with them.
  std::array<AddedTokenFinder, 2> finders_, normalised_finders_;
};

}  // namespace mantissa
