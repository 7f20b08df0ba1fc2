// Text as data: characters, bytes or pieces of words of one file, as tokens. The first part is for
// training, the next for validation, the last for testing. Examples are pieces of a part, one after
// the other. Or parallel text, whose examples are pairs of sentences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/batches/examples.h"
#include "data/datasets/dataset.h"
#include "data/tokenizers/vocabulary.h"

namespace mantissa {

// The task that a network learns on a text.
enum class TextTask : uint8_t {
  kNextToken,    // the token that follows each
  kMasks,        // tokens that are hidden
  kTranslation,  // sentences in another language; the text is a parallel one (parallel_text.h)
};

struct TextOptions {
  int64_t sequence = 0;  // tokens of an example
  Tokens tokens = Tokens::kCharacters;
  int64_t pieces = 0;                // of kPieces and kWordPieces: the size of the vocabulary
  std::string vocabulary_file = {};  // in its place, of kWordPieces: as read_wordpiece takes it
  TextTask task = TextTask::kNextToken;
  // The vocabulary of the network that reads the text. Null: one of the text's own, or the file's.
  std::shared_ptr<const Vocabulary> known = nullptr;
  bool packs = false;  // training examples are packed conversations
};

// A text's tokens. Pairs of sentences are a line each, which a line feed ends: source, translation,
// source and so on. Tokens of conversations have marks (conversations.h).
struct Text {
  Vocabulary vocabulary;
  std::vector<Token> train, validation, test;
  std::string sha256;                   // of the file, and of all that examples depend on
  std::vector<std::string> notes = {};  // notes for the user, a line each
};

constexpr int64_t kLongestSequence = 65536;
constexpr int64_t kMostTextBytes = int64_t{1} << 30;

// Whether the file has conversations for the network that reads it (conversations.h).
bool reads_conversations(const std::string& path, const TextOptions& options);

// The text of a file in its three parts: 90, 5 and 5 of 100 tokens, or as load_parallel_text and
// read_conversations divide pairs and conversations. Errors as vocabulary_of and these, text that a
// known vocabulary cannot express, with its place, and a file with less than two examples in a
// part, or no pair that is short enough.
Result<Text> load_text(const std::string& path, const TextOptions& options);

// The test part of a text as a network's tokens. Sequence and task come from `options`. Characters
// that the network does not know are left out, and so are pairs with no characters left; notes say
// how many.
Result<std::vector<Token>> load_test_tokens(const std::string& path, const Vocabulary& vocabulary,
                                            const TextOptions& options,
                                            std::vector<std::string>& notes);

// The same as a data set, for plans: examples are sequences, classes are tokens. Errors: a text that
// is not parallel and no regular file; one without conversations that is to be packed.
Result<DatasetInfo> inspect_text(const std::string& path, const TextOptions& options);

// Examples of a part: this many tokens each, and as labels, [sequence], the token after each of
// them.
int64_t text_example_count(int64_t tokens, int64_t sequence);
Examples text_examples(std::span<const Token> tokens, int64_t sequence);

// Examples of a masked language model (Devlin et al. 2018): 15 in 100 tokens are chosen, at least
// one. Of the chosen tokens, 8 in 10 become the mask, one a random token, one stays. Their labels
// are the original tokens; all others have -1. Choices are random numbers of (seed, epoch, example,
// place). Segments are 0, lengths the sequence.
constexpr uint64_t kTestMasks = 0;  // the seed that examples are measured with
Examples masked_examples(std::span<const Token> tokens, int64_t sequence,
                         const Vocabulary& vocabulary, uint64_t seed);

// Examples of translation: the source, how many tokens it has, the translation with a line feed
// before it, and as labels the translation and the line feed that ends it. The rest is line feeds,
// and labels of -1. Pairs are left out that have more than `sequence` tokens on a side, with the
// line feed of the translation.
constexpr const char* kSourceTensor = "source";               // int32 [sequence]
constexpr const char* kSourceLengthTensor = "source_length";  // int32 []
constexpr const char* kTranslationTensor = "target";          // int32 [sequence]
Examples pair_examples(std::span<const Token> tokens, int64_t sequence, Token line_feed);

// The lines of tokens, without the line feeds that end them.
std::vector<std::span<const Token>> lines_of(std::span<const Token> tokens, Token line_feed);

// The specs and the examples of a task. `seed` is of masks.
std::vector<TensorSpec> specs_for(TextTask task, int64_t sequence);
Examples examples_for(const Vocabulary& vocabulary, std::span<const Token> tokens,
                      const TextOptions& options, uint64_t seed);

}  // namespace mantissa
