// Language models: text from a trained network, and vectors of sentences.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mantissa/export.h"
#include "mantissa/mantissa.h"
#include "mantissa/outcome.h"

namespace mantissa {

// Why a text ends.
enum class TextFinish {
  kLength,   // it has as many tokens as were asked for, or as the model reads
  kEnd,      // the model ended it
  kStopped,  // the observer did
  kStop,     // a stop text came
};

// Bytes that generating takes beside the program.
struct GenerationMemory {
  int64_t weights = 0;
  int64_t cache = 0;  // of earlier positions
  int64_t arena = 0;
  bool is_cached = false;  // else each token computes all tokens before it again
};

struct GeneratedText {
  std::string prompt, text;                // the text follows the prompt
  int64_t prompt_tokens = 0;               // of a LanguageModel
  int64_t tokens = 0;                      // that were drawn, a stop text's among them
  TextFinish finish = TextFinish::kLength;
  GenerationMemory memory = {};            // of generate()
};

// Generates text that continues "prompt", with the language model "checkpoint": a run, its
// model.safetensors file, or a language model's file as import_model reads or writes it, which
// computes in "format" on texts of "sequence" positions, within "memory-budget" bytes. It draws at
// most "length" tokens at "temperature" among "top-k" and "top-p" by "seed"; the model may end its
// text before. The observer is told each piece as soon as it is there, and returns false to stop.
MANTISSA_EXPORT Outcome<GeneratedText> generate(
    const Settings& settings,
    const std::function<bool(const std::string& text)>& observer = nullptr);

// A turn of a conversation. Roles are "system", "user" and "assistant".
struct ChatMessage {
  std::string role, content;
};

// How tokens are drawn.
struct GenerationChoices {
  int64_t length = 200;    // tokens, 1 to 2^20
  double temperature = 1;  // 0 to 100
  int64_t top_k = 0;       // 0: among all
  // Draws among the likeliest of these, whose probabilities add up to this part of their sum: above
  // 0, at most 1, rounded to a whole number of 2^-16, one at least.
  double top_p = 1;
  uint64_t seed = 1;
  std::vector<std::string> stop = {};  // texts that end the text, and are no part of it
  // Ends with the sequence, and refuses prompts that fill it. Else the first tokens are forgotten.
  bool stays_in_sequence = true;
  // Positions that were computed for the last text serve this one, as far as both begin alike. In
  // fp32 the last bits of logits may depend on it.
  bool keeps_positions = false;
};

// The tokens that stand for no text; -1: there is none.
struct SpecialTokens {
  int32_t first = -1;              // before each text
  int32_t begin = -1, end = -1;    // that begin and end a text
  int32_t padding = -1;            // in the place of tokens that a batch lacks
  std::vector<int32_t> ends = {};  // with which the model ends a text, or its turn
};

// The tokens of a language model. A value.
class MANTISSA_EXPORT Tokenizer {
 public:
  // "byte-bpe", "characters", "bytes", "sentencepiece" or "wordpiece".
  std::string kind() const;
  int64_t vocabulary_size() const;
  SpecialTokens special_tokens() const;
  bool has_chat_template() const;

  // The tokens of a text, without any around it. A special token in a text is text. Errors name a
  // place: text that is not UTF-8, characters or bytes without a token.
  Outcome<std::vector<int32_t>> encode(const std::string& text) const;
  // The tokens of a conversation by the model's chat template. `asks`: the assistant's turn begins
  // at the end. Errors: no template, no message, other roles, texts that cannot be encoded.
  Outcome<std::vector<int32_t>> encode(const std::vector<ChatMessage>& messages, bool asks) const;
  // The bytes of tokens; a character may have several tokens. Special tokens give nothing, or with
  // `with_special`, of byte-level BPE, their names. Errors: numbers of no token.
  Outcome<std::string> decode(const std::vector<int32_t>& tokens, bool with_special = false) const;
  // A token as its vocabulary writes it, such as "\u0120the" for " the" in byte-level BPE.
  Outcome<std::string> token(int32_t number) const;

  struct Data;
  explicit Tokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<const Data> data_;
};

// Whether a checkpoint, as generate() takes it, is a language model that goes on with texts.
MANTISSA_EXPORT Outcome<bool> is_language_model(const std::string& checkpoint);

// A language model in memory. For one thread at a time.
class MANTISSA_EXPORT LanguageModel {
 public:
  using TextObserver = std::function<bool(const std::string& text)>;

  // Settings are those of the command chat: "checkpoint", "format", "sequence", "threads", "isa",
  // "memory-budget", and "length", "temperature", "top-k", "top-p" and "seed" for choices().
  static Outcome<LanguageModel> load(const Settings& settings);

  bool has_chat_template() const;
  int64_t sequence() const;    // tokens of a text, at most
  std::string format() const;  // the number format that it computes in
  int64_t adapter_rank() const;  // of its adapters (train's setting "lora"); 0: it has none
  const GenerationChoices& choices() const;
  Tokenizer tokenizer() const;

  // The text after a prompt, or the assistant's next turn, by the model's chat template. Errors:
  // choices that are out of range, more tokens than the model reads, no template, other roles.
  Outcome<GeneratedText> go_on(const std::string& prompt, const GenerationChoices& choices,
                               const TextObserver& observer = nullptr) const;
  Outcome<GeneratedText> answer(const std::vector<ChatMessage>& messages,
                                const GenerationChoices& choices,
                                const TextObserver& observer = nullptr) const;
  // Tokens of a prompt, and of a conversation up to the answer.
  Outcome<int64_t> count_tokens(const std::string& prompt) const;
  Outcome<int64_t> count_tokens(const std::vector<ChatMessage>& messages) const;

  // How well it predicts each token of a text by those before it, as evaluate() measures the test
  // part of a file: the text is divided into sequences, one after the other. Errors: a text of less
  // than two tokens, or that cannot be encoded.
  Outcome<Evaluation> loss(const std::string& text, const Observer& observer = nullptr) const;
  // As the function evaluate(), with its settings "data", "out" and "batch-size".
  Outcome<Evaluation> evaluate(const Settings& settings, const Observer& observer = nullptr) const;

  struct Data;
  explicit LanguageModel(std::shared_ptr<Data> data) : data_(std::move(data)) {}

 private:
  std::shared_ptr<Data> data_;
};

struct FilledMasks {
  struct Guess {
    std::string token;
    double probability = 0;
  };
  std::vector<std::vector<Guess>> masks;  // for each [MASK], likeliest first
};

// Guesses the token at each "[MASK]" of "text", with the masked language model of a run,
// "checkpoint". Returns "top" guesses for each.
MANTISSA_EXPORT Outcome<FilledMasks> fill_mask(const Settings& settings);

struct Translations {
  std::vector<std::string> sources, translations;  // one for each sentence
  int64_t truncated = 0;                           // sentences longer than the network reads
  std::vector<std::string> notes;                  // notes for the user, a line each
  double seconds = 0;                              // of the computation
};

// Translates sentences with the network of a run, "checkpoint", by a beam search of "beam"
// hypotheses. The sentences are the given ones, or "text", or the lines of the file "data". With
// "out" the translations are written to that file, one on each line. The observer is shown how many
// are done; if it returns false, it stops (kInterrupted).
MANTISSA_EXPORT Outcome<Translations> translate(const Settings& settings,
                                                const std::vector<std::string>& sentences = {},
                                                const Observer& observer = nullptr);

struct Embeddings {
  int64_t sentences = 0, channels = 0;
  int64_t truncated = 0;       // sentences that were longer than "sequence"
  double seconds = 0;          // of the computation
  std::vector<float> vectors;  // [sentences, channels], each of length 1
};

// Vectors of sentences, from an encoder. "from" names a file that import_model wrote of one, or its
// folder; "format", "sequence", "batch-size", "threads" and "isa" say how. The sentences are the
// given ones, or, if there are none, the lines of the file "data". With "out" the vectors are
// written to that file, .npy or .npz. The observer is told how many are done, and returns false to
// stop.
MANTISSA_EXPORT Outcome<Embeddings> embed(
    const Settings& settings, const std::vector<std::string>& sentences = {},
    const std::function<bool(int64_t done)>& observer = nullptr);

struct LanguageModelDescription {
  // Architecture, sizes, types of tensors, tokenizer, chat template, and each key or tensor that
  // asks for something that is not there: a line each. Empty: the path is no language model's.
  std::vector<std::string> lines;
};

struct LayerBlocksInfo {
  std::string name, blocks;  // "block1.query", "q4_0"
  // Relative error of the layer's outputs on the calibration's tokens, the root of (squared error /
  // squares): with weights rounded to nearest, and with the weights as they are.
  double nearest_error = 0, error = 0;
};

struct LanguageModelInBlocks {
  std::string file;    // that was written
  std::string blocks;  // how many there are of each kind, and their bytes
  int64_t calibration_tokens = 0;
  int64_t held_out_tokens = 0;             // of the text's test part
  double loss_before = 0, loss_after = 0;  // of these, in fp32, nats a token
  std::vector<LayerBlocksInfo> layers;     // but for the embedding and the classifier
  std::string json;                        // all of this
};

// With the settings of quantize, "blocks" among them: rounds the weights of a language model in
// Llama's layout, "from", to blocks, by the text "data", and writes a file "out" as
// import_model does. The observer is told a line for each layer (kMessage, with the number of the
// layer as the step), and returns false to stop. docs/language.md.
MANTISSA_EXPORT Outcome<LanguageModelInBlocks> quantize_language_model(
    const Settings& settings, const Observer& observer = nullptr);

// What the file of a language model is: a GGUF file, or a folder with config.json. Only its header
// is read. Errors: damaged files.
MANTISSA_EXPORT Outcome<LanguageModelDescription> describe_language_model(const std::string& path);

}  // namespace mantissa
