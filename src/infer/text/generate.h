// Text from a language model, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "data/text/text.h"
#include "infer/frozen_network.h"
#include "infer/text/decoder.h"

namespace mantissa {

struct GenerationOptions {
  std::string prompt;
  int64_t length = 200;    // tokens to generate
  double temperature = 1;  // divides logits; 0: always the likeliest token
  int64_t top_k = 0;       // draws among this many likeliest; 0: all
  uint64_t seed = 1;
  DecodingForm form = DecodingForm::kCached;  // changes no text
};

// Gets each piece of text once it is there. Returns false to stop.
using TextObserver = std::function<bool(const std::string& text)>;

// The text after the prompt. A network reads as many of the last tokens as its sequence has places.
// The random numbers of (seed, the token's place) draw each token from integer probabilities: the
// same arguments give the same text on any machine. Errors: characters that the network does not
// know, no prompt, kInterrupted.
Result<std::string> generate_text(FrozenNetwork& network, const GenerationOptions& options,
                                  ThreadPool& pool, Isa isa, const TextObserver& observer);

}  // namespace mantissa
