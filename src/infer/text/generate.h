// Text from a language model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "data/text/text.h"
#include "infer/frozen_network.h"
#include "infer/text/decoder.h"
#include "kernels/softmax/softmax.h"

namespace mantissa {

struct GenerationOptions {
  int64_t length = 200;    // tokens to generate, at most
  double temperature = 1;  // divides logits; 0: always the likeliest token
  int64_t top_k = 0;       // draws among this many likeliest; 0: all
  double top_p = 1;        // and of these among the likeliest that have this part of their sum
  uint64_t seed = 1;
  // Goes on from the positions that were computed for the last text, as far as this one begins in
  // the same way. In fp32 the last bits of logits may depend on that.
  bool keeps_positions = false;
  bool stays_in_sequence = false;  // ends with the sequence; else the first tokens are forgotten
};

enum class TextEnd : uint8_t {
  kLength,   // so many tokens as were asked for, or as the sequence has
  kEnd,      // the model ended its text
  kStopped,  // the observer did
};

struct TextGoneOn {
  std::string text;
  int64_t tokens = 0;  // that were drawn; the one that ends the text is not counted
  TextEnd end = TextEnd::kLength;
};

// Gets each piece of text once it is there, in whole characters. Returns false to stop.
using TextObserver = std::function<bool(const std::string& text)>;

// Goes on with texts. A network reads as many of the last tokens as its sequence has places. The
// random numbers of (seed, the token's place) draw each token from integer probabilities: the same
// arguments give the same text on any machine.
class Generator {
 public:
  // The network and the pool must outlive it. An error if the network does not go on with texts.
  static Result<std::unique_ptr<Generator>> create(FrozenNetwork& network, DecodingForm form,
                                                   ThreadPool& pool, Isa isa);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int64_t sequence() const { return sequence_; }
  DecoderMemory memory() const { return decoder_->memory(); }
  // Whether a new token is computed alone.
  bool is_cached() const { return decoder_->is_cached(); }

  // A prompt's tokens, with the one that begins each text if the tokenizer has one. Errors: no
  // text, characters or words that the vocabulary lacks.
  Result<std::vector<Token>> encode_prompt(const std::string& prompt) const;

  // The text after the tokens, of which there is at least one, up to the model's end tokens.
  Result<TextGoneOn> go_on(std::vector<Token> tokens, const GenerationOptions& options,
                           const TextObserver& observer);

 private:
  Generator(Vocabulary vocabulary, int64_t sequence, const kernels::SoftmaxKernels& softmax);
  Status compute(std::span<const Token> tokens);
  Token draw(TokenLogits logits, const GenerationOptions& options, uint64_t place) const;

  Vocabulary vocabulary_;
  int64_t sequence_;
  const kernels::SoftmaxKernels& softmax_;
  std::vector<Token> drawable_, ends_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<Token> computed_;  // at the positions that the decoder has
  bool goes_back_ = false;       // positions may be computed again
};

// The text after one prompt. Errors of Generator, and kInterrupted if the observer stops it.
Result<TextGoneOn> go_on_with_text(Generator& generator, const std::string& prompt,
                                   const GenerationOptions& options, const TextObserver& observer);
Result<TextGoneOn> generate_text(FrozenNetwork& network, const std::string& prompt,
                                 const GenerationOptions& options, DecodingForm form,
                                 ThreadPool& pool, Isa isa, const TextObserver& observer);

}  // namespace mantissa
