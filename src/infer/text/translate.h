// Translations by a network, the likeliest ones that a beam search finds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "infer/frozen_network.h"
#include "infer/text/decoder.h"

namespace mantissa {

constexpr int64_t kMostBeam = 64;

struct TranslationOptions {
  int64_t beam = 4;         // hypotheses of a sentence; 1: always the likeliest token
  int64_t batch_size = 32;  // sentences computed at once
  DecodingForm form = DecodingForm::kCached;  // changes no text
};

struct TranslatedTexts {
  std::vector<std::string> texts;  // one for each sentence; "" of an empty one
  int64_t truncated = 0;           // sentences with more tokens than the network reads
  UnknownCharacters unknown = {};  // of all sentences, which are read without them
};

// Told how many sentences are done. Returns false to stop.
using TranslationObserver = std::function<bool(int64_t done)>;

// A hypothesis costs the sum of -log2(probability) of its tokens, as integers in Q24. The result is
// the hypothesis that ends with the least cost per token. A translation has at most as many tokens
// as the network's sequence, and at most twice as many as the source plus 16. Sentences of similar
// length are computed together; in integer formats neither neighbours nor padding change a
// translation. Errors: a network that does not translate; a sentence that has a line feed or is not
// UTF-8, with its number as a line; kInterrupted.
Result<TranslatedTexts> translate_sentences(FrozenNetwork& network,
                                            std::span<const std::string> sentences,
                                            const TranslationOptions& options, ThreadPool& pool,
                                            Isa isa, const TranslationObserver& observer);

}  // namespace mantissa
