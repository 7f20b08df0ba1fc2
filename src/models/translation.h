// Networks that translate: an encoder reads the source, a decoder says the target's next token
// (Vaswani et al. 2017, arXiv:1706.03762).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "models/models.h"

namespace mantissa {

// The inputs, in this order; the loss adds the labels, int32 [target].
constexpr const char* kSourceTokens = "source";          // int32 [source]
constexpr const char* kSourceLengths = "source_length";  // int32 []: tokens that are no padding
constexpr const char* kTargetTokens = "target";          // int32 [target]

struct TranslationSizes {
  int64_t vocabulary = 0;          // of both languages
  int64_t source = 0, target = 0;  // tokens of an example, with padding
  int64_t layers = 2;              // of the encoder, and as many of the decoder
  int64_t channels = 128, heads = 4;
  bool tied = false;  // the classifier has the embedding's weights, too
};

// The sizes that options ask for.
TranslationSizes translation_sizes(const ModelOptions& options);

// A transformer without a loss; its result are the logits, [target, vocabulary]. Both languages
// have one embedding. Target position i sees positions up to i, and the source's tokens without its
// padding. Errors: sizes that the operators refuse, fewer than one layer.
Result<Graph> transformer_translator(std::string_view name, const TranslationSizes& sizes);

// The same of LSTM layers and one attention.
Result<Graph> lstm_translator(std::string_view name, const TranslationSizes& sizes);

}  // namespace mantissa
