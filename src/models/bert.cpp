// The recipe for 8 bits is the same as in transformer.cpp. 16 bits: the residual stream (here the
// results of layer norms), the values added to it, and GELU's input. All other values have the
// format's bits (docs/language.md).
#include "models/bert.h"

#include <string>
#include <utility>

#include "graph/rebuild.h"
#include "models/language_layers.h"
#include "models/networks.h"
#include "ops/loss.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

class Bert {
 public:
  Bert(std::string_view name, const BertSizes& sizes, int64_t sequence)
      : sizes_(sizes), builder_(std::string(name)) {
    const int tokens = builder_.add_input(kBertTokens, Shape{sequence}, Element::kIndex);
    const int segments = builder_.add_input(kBertSegments, Shape{sequence}, Element::kIndex);
    lengths_ = builder_.add_input(kBertLengths, Shape{}, Element::kIndex);
    embedded_ = table("embedding", tokens, sizes.vocabulary);
    stream_ = builder_.add(ops::kPositionEmbedding, "positions", {embedded_},
                           {{"positions", sizes.positions}, {"least_bits", kWideBits}});
    add_to_stream("add", table("segment", segments, sizes.segments));
    stream_ = norm("norm", stream_);
    for (int64_t i = 1; i <= sizes.layers; ++i) block("block" + std::to_string(i));
  }

  Result<Graph> encoder() { return builder_.finish(stream_); }

  Result<Graph> with_head(bool tied) {
    const int hidden = linear("head.linear", stream_, sizes_.channels, kWideBits);
    const int bent = builder_.add(ops::kGelu, "head.gelu", {hidden});
    const int normed =
        builder_.add(ops::kLayerNorm, "head.norm", {bent}, {{"epsilon", sizes_.epsilon}});
    return builder_.finish(add_classifier(builder_, normed, sizes_.vocabulary, tied, embedded_));
  }

 private:
  int table(const std::string& name, int indices, int64_t rows) {
    return builder_.add(ops::kEmbedding, name, {indices},
                        {{"rows", rows}, {"channels", sizes_.channels}});
  }
  int linear(const std::string& name, int from, int64_t channels, int64_t least_bits = 0) {
    return add_linear(builder_, name, from, channels, least_bits);
  }
  int norm(const std::string& name, int from) {
    return builder_.add(ops::kLayerNorm, name, {from},
                        {{"epsilon", sizes_.epsilon}, {"least_bits", kWideBits}});
  }
  void add_to_stream(const std::string& name, int value) {
    stream_ = mantissa::add_to_stream(builder_, name, stream_, value);
  }

  void block(const std::string& name) {
    const int query = linear(name + ".query", stream_, sizes_.channels);
    const int key = linear(name + ".key", stream_, sizes_.channels);
    const int value = linear(name + ".value", stream_, sizes_.channels);
    const int heads = builder_.add(ops::kAttention, name + ".attention",
                                   {query, key, value, lengths_}, {{"heads", sizes_.heads}});
    add_to_stream(name + ".add1", linear(name + ".project", heads, sizes_.channels, kWideBits));
    stream_ = norm(name + ".norm1", stream_);
    const int hidden = linear(name + ".linear1", stream_, sizes_.inner, kWideBits);
    const int bent = builder_.add(ops::kGelu, name + ".gelu", {hidden});
    add_to_stream(name + ".add2", linear(name + ".linear2", bent, sizes_.channels, kWideBits));
    stream_ = norm(name + ".norm2", stream_);
  }

  const BertSizes sizes_;
  GraphBuilder builder_;
  int lengths_ = 0, embedded_ = 0, stream_ = 0;
};

// Sizes of the paper's networks (Devlin et al. 2018, arXiv:1810.04805), and of a small one.
Result<Graph> masked_model(std::string_view name, BertSizes sizes, const ModelOptions& options) {
  sizes.channels =
      channels_of_heads(sizes.heads, sizes.channels / sizes.heads, options.width_multiplier);
  sizes.inner = 4 * sizes.channels;
  sizes.vocabulary = options.classes;
  MANTISSA_ASSIGN(Graph graph, bert_with_head(name, sizes, options.sequence, options.tied));
  return ops::with_loss(std::move(graph), loss_options(options));
}

}  // namespace

Result<Graph> bert_encoder(std::string_view name, const BertSizes& sizes, int64_t sequence) {
  return Bert(name, sizes, sequence).encoder();
}

Result<Graph> bert_with_head(std::string_view name, const BertSizes& sizes, int64_t sequence,
                             bool tied) {
  return Bert(name, sizes, sequence).with_head(tied);
}

Result<Graph> text_classifier(const Graph& encoder, int64_t classes) {
  const int result = encoder.outputs[0];
  const int64_t channels = encoder.values[result].shape.last();
  GraphChanges changes;
  changes.behind = [&](GraphBuilder& builder, int node, int output) {
    if (encoder.nodes[static_cast<size_t>(node)].outputs[0] != result) return output;
    const int first =
        builder.add(ops::kSlice, "first", {output}, {{"position", 0}, {"channels", channels}});
    return builder.add(ops::kLinear, "classifier", {first},
                       {{"channels", classes}, {"classifier", 1}});
  };
  MANTISSA_ASSIGN(Graph graph, rebuilt(encoder, changes));
  return ops::with_loss(std::move(graph), ops::LossKind::kCrossEntropy, 0);
}

Result<Graph> bert_tiny(std::string_view name, const ModelOptions& options) {
  return masked_model(name, {.layers = 2, .channels = 128, .heads = 2}, options);
}

Result<Graph> bert_base(std::string_view name, const ModelOptions& options) {
  return masked_model(name, {.layers = 12, .channels = 768, .heads = 12}, options);
}

Result<Graph> bert_large(std::string_view name, const ModelOptions& options) {
  return masked_model(name, {.layers = 24, .channels = 1024, .heads = 16}, options);
}

}  // namespace mantissa
