// Layers that language models share. The recipe for 8 bits (docs/language.md): the residual stream,
// the values added to it, and inputs of GELU and of gates have 16 bits. All other values have the
// format's bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "ops/ops.h"

namespace mantissa {

constexpr int64_t kWideBits = 16;

// The channels of this many heads, of `head` channels each times the width.
inline int64_t channels_of_heads(int64_t heads, int64_t head, double width) {
  return heads *
         std::max<int64_t>(1, std::llrint(std::floor(static_cast<double>(head) * width + 0.5)));
}

inline int add_linear(GraphBuilder& builder, const std::string& name, int from, int64_t channels,
                      int64_t least_bits = 0) {
  return builder.add(
      ops::kLinear, name, {from},
      {{"channels", channels}, {"initialiser", "fan-in"}, {"least_bits", least_bits}});
}

// The input "tokens", int32 [sequence], and the channels of each token. The result is the latter.
inline int add_embedded_tokens(GraphBuilder& builder, int64_t sequence, int64_t vocabulary,
                               int64_t channels) {
  const int tokens = builder.add_input("tokens", Shape{sequence}, Element::kIndex);
  return builder.add(ops::kEmbedding, "embedding", {tokens},
                     {{"rows", vocabulary}, {"channels", channels}});
}

// The residual stream and a value.
inline int add_to_stream(GraphBuilder& builder, const std::string& name, int stream, int value) {
  return builder.add(ops::kAdd, name, {stream, value}, {{"least_bits", kWideBits}});
}

// Logits for each token of the vocabulary. Tied: with the weights of the node that made `embedded`.
inline int add_classifier(GraphBuilder& builder, int from, int64_t vocabulary, bool tied,
                          int embedded, int64_t input_bits = 0) {
  const Attributes attributes = {
      {"channels", vocabulary}, {"bias", 0}, {"classifier", 1}, {"input_bits", input_bits}};
  return tied ? builder.add_sharing(embedded, ops::kLinear, "classifier", {from}, attributes)
              : builder.add(ops::kLinear, "classifier", {from}, attributes);
}

}  // namespace mantissa
