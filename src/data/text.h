// Text as data: characters, bytes or pieces of words of one file, as tokens. The first part is
// trained on, what follows validates, and the end tests; examples are pieces of a part, one behind
// the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "data/examples.h"

namespace mantissa {

// The number of a token in a vocabulary.
using Token = uint16_t;

enum class Tokens : uint8_t { kCharacters, kBytes, kPieces };
Result<Tokens> parse_tokens(std::string_view text);
std::string_view tokens_name(Tokens tokens);

struct TextOptions {
  int64_t sequence = 0;  // tokens of an example
  Tokens tokens = Tokens::kCharacters;
  int64_t pieces = 0;  // of kPieces: the size of the vocabulary
  bool masks = false;  // for a masked language model: the vocabulary has a mask
};

constexpr const char* kMaskName = "[MASK]";  // the last token of such a vocabulary

// The tokens that a network knows, in the order of their numbers. Of characters each is one code
// point as UTF-8; of bytes "\x0A", and the vocabulary has all 256; of pieces those of
// sentence_piece.h. The names tell which of these they are.
class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(std::vector<std::string> names) : names_(std::move(names)) {}

  const std::vector<std::string>& names() const { return names_; }
  // Whether the last token is the mask, which no text has.
  bool has_mask() const { return !names_.empty() && names_.back() == kMaskName; }
  Tokens tokens() const;
  // The text's tokens. An error names a character that is none of them, and its place.
  Result<std::vector<Token>> encode(std::string_view text) const;
  std::string decode(std::span<const Token> tokens) const;
  // Code points, or bytes, that the tokens are.
  int64_t characters(std::span<const Token> tokens) const;

 private:
  Status check_known(std::string_view text) const;

  std::vector<std::string> names_;
};

// The vocabulary of a text: its characters by code point, all bytes, or so many pieces that are
// learned from it. Errors: text that is not UTF-8 or has NUL bytes, with the place; more characters
// than networks have classes, or than there are to be pieces.
Result<Vocabulary> vocabulary_of(std::string_view text, Tokens tokens, int64_t pieces = 0);

struct Text {
  Vocabulary vocabulary;
  std::vector<Token> train, validation, test;
  std::string sha256;  // of the file, and of all that examples depend on
};

constexpr int64_t kMostCharacters = 65536;  // of a vocabulary, or pieces: a Token names them
constexpr int64_t kUsualPieces = 4000;
constexpr int64_t kLongestSequence = 65536;
constexpr int64_t kMostTextBytes = int64_t{1} << 30;

// Whether data are a text: any regular file is.
bool is_text_file(const std::string& path);

// The text of a file in its three parts: 90, 5 and 5 of 100 tokens. Errors as vocabulary_of, and a
// file with less than two examples in a part.
Result<Text> load_text(const std::string& path, const TextOptions& options);

// The test part of a text as a network's tokens.
Result<std::vector<Token>> load_test_tokens(const std::string& path, const Vocabulary& vocabulary,
                                            int64_t sequence);

// The same as a data set, for plans: examples are sequences, classes are tokens.
Result<DatasetInfo> inspect_text(const std::string& path, const TextOptions& options);

// Examples of a part: so many tokens each, and as labels those that follow them.
constexpr const char* kTokenTensor = "tokens";  // int32 [sequence]; labels: the same
std::vector<TensorSpec> text_specs(int64_t sequence);
int64_t text_example_count(int64_t tokens, int64_t sequence);
Examples text_examples(std::span<const Token> tokens, int64_t sequence);

// Examples of a masked language model (Devlin et al. 2018): of 100 tokens 15 are chosen, and at
// least one. Of 10 chosen ones 8 become the mask, one a random token, one stays. Their labels are
// what they were, all others have -1. Choices are random numbers of (seed, epoch, example, place).
// Segments are 0, lengths the sequence.
constexpr const char* kSegmentTensor = "segments";  // int32 [sequence]
constexpr const char* kLengthTensor = "lengths";    // int32 []
constexpr uint64_t kTestMasks = 0;                  // the seed that examples are measured with
std::vector<TensorSpec> masked_specs(int64_t sequence);
Examples masked_examples(std::span<const Token> tokens, int64_t sequence,
                         const Vocabulary& vocabulary, uint64_t seed);

// The specs and the examples that a vocabulary is for.
std::vector<TensorSpec> specs_for(const Vocabulary& vocabulary, int64_t sequence);
Examples examples_for(const Vocabulary& vocabulary, std::span<const Token> tokens, int64_t sequence,
                      uint64_t seed);

}  // namespace mantissa
