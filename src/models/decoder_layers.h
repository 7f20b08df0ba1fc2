// The end that all layouts of decoders share.
#pragma once

#include <utility>

#include "models/decoder.h"
#include "models/language_layers.h"
#include "ops/loss.h"

namespace mantissa {

// The network of a decoder: logits of the last norm's result, which the classifier reads in 16 bits,
// and their cross-entropy. Tied: with the weights of the node that made `embedded`.
inline Result<Graph> classified(GraphBuilder& builder, int normed, const DecoderSizes& sizes,
                                int embedded) {
  const int logits =
      add_classifier(builder, normed, sizes.vocabulary, sizes.tied, embedded, kWideBits);
  MANTISSA_ASSIGN(Graph graph, builder.finish(logits));
  return ops::with_loss(std::move(graph), ops::LossKind::kCrossEntropy, 0);
}

}  // namespace mantissa
