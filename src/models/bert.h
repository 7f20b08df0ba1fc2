// BERT: a transformer that reads a whole sequence, with a norm after each sum. Files of other
// programs hold such networks, too, in their own sizes.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

// Names of its inputs: int32 [sequence], and [] for the lengths. Positions after an example's
// length are padding: no other position sees them.
constexpr const char* kBertTokens = "tokens";
constexpr const char* kBertSegments = "segments";
constexpr const char* kBertLengths = "lengths";

struct BertSizes {
  int64_t layers = 2;
  int64_t channels = 128;  // of the residual stream
  int64_t heads = 2;       // divide the channels
  int64_t inner = 512;     // between the two linear layers of a block
  int64_t vocabulary = 0;  // tokens
  int64_t positions = 512;
  int64_t segments = 2;
  double epsilon = 1e-12;  // of layer norms
};

// The encoder alone: its output is [sequence, channels], and it has no loss. Errors: sizes that no
// network can have, a sequence longer than there are positions.
Result<Graph> bert_encoder(std::string_view name, const BertSizes& sizes, int64_t sequence);

// The encoder and the head of masked language modelling: linear, GELU and layer norm, then logits
// over the vocabulary, with the embedding's weights if `tied`. Its output is
// [sequence, vocabulary]; it has no loss yet.
Result<Graph> bert_with_head(std::string_view name, const BertSizes& sizes, int64_t sequence,
                             bool tied);

// A network of texts with classes: the encoder, and on the first position of its result (the token
// that begins a text) a linear layer, "classifier", and cross-entropy with the input "labels",
// int32 []. Its output is [classes].
Result<Graph> text_classifier(const Graph& encoder, int64_t classes);

}  // namespace mantissa
