// Decoders of other programs' language models, in Llama's layout and in GPT-2's.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

enum class DecoderLayout : uint8_t {
  kLlama,  // RMS norms before each part, rotary positions, queries in groups that share keys and
           // values, gated layers with SiLU: Llama, Qwen2, Qwen3
  kGpt2    // layer norms before each part, a table of positions, queries, keys and values of one
           // layer, GELU's approximation with tanh
};

struct DecoderSizes {
  DecoderLayout layout = DecoderLayout::kLlama;
  int64_t layers = 1;
  int64_t channels = 64;  // of the residual stream
  int64_t heads = 4;      // of queries
  // Llama's: heads of keys and values, which divide the heads, and channels of all of these.
  int64_t key_heads = 4;
  int64_t head_channels = 16;
  int64_t inner = 128;     // channels of the inner layer of a block, or between its gated layers
  int64_t vocabulary = 0;  // tokens
  // Llama's: of rotary positions (RotaryAttributes).
  double rotary_base = 10000;
  WholeList rotary_factors = {};
  double epsilon = 1e-5;    // of norms
  bool tied = true;         // the classifier has the embedding's weights
  bool query_bias = false;  // Llama's: of queries, keys and values (Qwen2)
  bool head_norms = false;  // Llama's: RMS norms of queries and keys within each head (Qwen3)
  int64_t positions = 0;    // GPT-2's: rows of the table
};

// A language model with the inputs "tokens" and "labels", int32 [sequence], logits
// [sequence, vocabulary], and their cross-entropy. Rotary pairs are channel i and i + half of a
// head. Errors: sizes that no network can have.
Result<Graph> decoder_lm(std::string_view name, const DecoderSizes& sizes, int64_t sequence);

// The same of one layout (llama.cpp, gpt2.cpp).
Result<Graph> llama_lm(std::string_view name, const DecoderSizes& sizes, int64_t sequence);
Result<Graph> gpt2_lm(std::string_view name, const DecoderSizes& sizes, int64_t sequence);

}  // namespace mantissa
