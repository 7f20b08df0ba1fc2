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
  int64_t top_k = 0;       // draws among so many likeliest; 0: all
  uint64_t seed = 1;
  DecodingForm form = DecodingForm::kCached;  // changes no text
};

// Told each piece of text as it is there. Returns false to stop.
using TextObserver = std::function<bool(const std::string& text)>;

// The text behind the prompt. A network reads as many of the last tokens as its sequence is long. A
// token is drawn by the random numbers of (seed, its place) from probabilities in integers: the
// same arguments give the same text on any machine. Errors: characters that the network does not
// know, no prompt, kInterrupted.
Result<std::string> generate_text(FrozenNetwork& network, const GenerationOptions& options,
                                  ThreadPool& pool, Isa isa, const TextObserver& observer);

}  // namespace mantissa
