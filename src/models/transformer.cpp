// Language models of characters: transformers with causal attention, norms before each part
// (GPT-2's order). The recipe for 8 bits: the residual stream, the values added to it and GELU's
// input have 16 bits. All other values have the format's bits (docs/language.md).
#include <string>
#include <utility>

#include "models/language_layers.h"
#include "models/networks.h"
#include "ops/loss.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

constexpr int64_t kHeads = 4;
constexpr int64_t kHeadChannels = 16;
constexpr int kBlocks = 3;

class Transformer {
 public:
  Transformer(std::string_view name, const ModelOptions& options)
      : options_(options), builder_(std::string(name)) {
    channels_ = channels_of_heads(kHeads, kHeadChannels, options.width_multiplier);
    embedded_ = add_embedded_tokens(builder_, options.sequence, options.classes, channels_);
    stream_ = builder_.add(ops::kPositionEmbedding, "positions", {embedded_},
                           {{"positions", options.sequence}, {"least_bits", kWideBits}});
  }

  void block(const std::string& name) {
    const int normed = norm(name + ".norm1");
    const int query = linear(name + ".query", normed, channels_);
    const int key = linear(name + ".key", normed, channels_);
    const int value = linear(name + ".value", normed, channels_);
    const int heads = builder_.add(ops::kAttention, name + ".attention", {query, key, value},
                                   {{"heads", kHeads}, {"causal", 1}});
    add_to_stream(name + ".add1", linear(name + ".project", heads, channels_, kWideBits));
    const int hidden = linear(name + ".linear1", norm(name + ".norm2"), 4 * channels_, kWideBits);
    const int bent = builder_.add(ops::kGelu, name + ".gelu", {hidden});
    add_to_stream(name + ".add2", linear(name + ".linear2", bent, channels_, kWideBits));
  }

  Result<Graph> classify() {
    const int normed = norm("norm");
    const int logits = add_classifier(builder_, normed, options_.classes, options_.tied, embedded_);
    MANTISSA_ASSIGN(Graph graph, builder_.finish(logits));
    return ops::with_loss(std::move(graph), loss_options(options_));
  }

 private:
  int norm(const std::string& name) { return builder_.add(ops::kLayerNorm, name, {stream_}); }
  int linear(const std::string& name, int from, int64_t channels, int64_t least_bits = 0) {
    return add_linear(builder_, name, from, channels, least_bits);
  }
  void add_to_stream(const std::string& name, int value) {
    stream_ = mantissa::add_to_stream(builder_, name, stream_, value);
  }

  const ModelOptions& options_;
  GraphBuilder builder_;
  int64_t channels_ = 0;
  int embedded_ = 0, stream_ = 0;
};

}  // namespace

Result<Graph> transformer_lm(std::string_view name, const ModelOptions& options) {
  Transformer net(name, options);
  for (int i = 1; i <= kBlocks; ++i) net.block("block" + std::to_string(i));
  return net.classify();
}

}  // namespace mantissa
