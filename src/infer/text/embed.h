// Sentence vectors, from the vectors that an encoder gives for tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "infer/encoder.h"

namespace mantissa {

constexpr int64_t kMostSentenceBytes = int64_t{1} << 20;

// The sentences of a text file, one on each line. Errors: an empty file, NUL bytes, a line of more
// than kMostSentenceBytes.
Result<std::vector<std::string>> read_sentences(const std::filesystem::path& path);

struct EmbeddingOptions {
  int64_t sequence = 0;  // most tokens of a sentence, special ones included; 0: the network's
  int64_t batch_size = 32;
};

struct SentenceVectors {
  int64_t channels = 0;
  std::vector<float> numbers;  // [sentences, channels]; each vector has the length 1
  int64_t truncated = 0;       // sentences with more tokens than were read
};

// Told how many sentences are done. Returns false to stop.
using EmbeddingObserver = std::function<bool(int64_t done)>;

// Means of the tokens' vectors, special tokens included, divided by their norms. Sentences of
// similar length are computed together, and padding changes no bit in integers. Errors: a sentence
// that is not UTF-8, with its number; a request for more tokens than there are positions;
// kInterrupted.
Result<SentenceVectors> embed_sentences(Encoder& encoder, std::span<const std::string> sentences,
                                        const EmbeddingOptions& options, ThreadPool& pool, Isa isa,
                                        const EmbeddingObserver& observer);

}  // namespace mantissa
