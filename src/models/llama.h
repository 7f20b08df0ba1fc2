// Decoders in Llama's layout: norms before each part, rotary positions, queries in groups that
// share keys and values, gated layers with SiLU. Files of other programs hold such networks.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

struct LlamaSizes {
  int64_t layers = 1;
  int64_t channels = 64;  // of the residual stream
  int64_t heads = 4;      // of queries
  int64_t key_heads = 4;  // of keys and values; divide the heads
  int64_t head_channels = 16;
  int64_t inner = 128;     // between the gated layers of a block
  int64_t vocabulary = 0;  // tokens
  double rotary_base = 10000;
  double epsilon = 1e-5;    // of RMS norms
  bool tied = true;         // the classifier has the embedding's weights
  bool query_bias = false;  // of queries, keys and values (Qwen2)
};

// A language model with the inputs "tokens" and "labels", int32 [sequence], logits
// [sequence, vocabulary], and their cross-entropy. Rotary pairs are channel i and i + half of a
// head. Errors: sizes that no network can have.
Result<Graph> llama_lm(std::string_view name, const LlamaSizes& sizes, int64_t sequence);

}  // namespace mantissa
