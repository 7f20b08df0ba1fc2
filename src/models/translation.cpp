// Norms stand before each part. The recipe for 8 bits is the same as in transformer.cpp: the
// residual streams, the values added to them and GELU's input have 16 bits. All other values have
// the format's bits (docs/language.md).
#include "models/translation.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/language_layers.h"
#include "models/networks.h"
#include "ops/loss.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

class Translator {
 public:
  Translator(std::string_view name, const TranslationSizes& sizes)
      : sizes_(sizes), builder_(std::string(name)) {
    const int source = builder_.add_input(kSourceTokens, Shape{sizes.source}, Element::kIndex);
    lengths_ = builder_.add_input(kSourceLengths, Shape{}, Element::kIndex);
    const int target = builder_.add_input(kTargetTokens, Shape{sizes.target}, Element::kIndex);
    const Attributes table = {{"rows", sizes.vocabulary}, {"channels", sizes.channels}};
    embedded_ = builder_.add(ops::kEmbedding, "embedding", {source}, table);
    encode();
    stream_ = positions(
        "decoder.positions",
        builder_.add_sharing(embedded_, ops::kEmbedding, "decoder.embedding", {target}, table),
        sizes.target);
    for (int64_t i = 1; i <= sizes.layers; ++i) decoder_block("decoder" + std::to_string(i));
  }

  Result<Graph> classify() {
    const int normed = norm("decoder.norm");
    return builder_.finish(
        add_classifier(builder_, normed, sizes_.vocabulary, sizes_.tied, embedded_));
  }

 private:
  int positions(const std::string& name, int embedded, int64_t count) {
    return builder_.add(ops::kPositionEmbedding, name, {embedded},
                        {{"positions", count}, {"least_bits", kWideBits}});
  }
  int norm(const std::string& name) { return builder_.add(ops::kLayerNorm, name, {stream_}); }
  int linear(const std::string& name, int from, int64_t channels, int64_t least_bits = 0) {
    return add_linear(builder_, name, from, channels, least_bits);
  }
  void add_to_stream(const std::string& name, int value) {
    stream_ = mantissa::add_to_stream(builder_, name, stream_, value);
  }

  // The positions that the stream sees: all of the source, the target so far, or from the target
  // the source.
  enum class Sight : uint8_t { kSource, kTarget, kAcross };

  // Attention of the stream, normed, to `from`, [positions, channels].
  void attend(const std::string& name, int normed, int from, Sight sight) {
    std::vector<int> inputs = {linear(name + ".query", normed, sizes_.channels),
                               linear(name + ".key", from, sizes_.channels),
                               linear(name + ".value", from, sizes_.channels)};
    if (sight != Sight::kTarget) inputs.push_back(lengths_);
    const int heads = builder_.add(ops::kAttention, name + ".attention", inputs,
                                   {{"heads", sizes_.heads},
                                    {"causal", int64_t{sight == Sight::kTarget}},
                                    {"cross", int64_t{sight == Sight::kAcross}}});
    add_to_stream(name + ".add", linear(name + ".project", heads, sizes_.channels, kWideBits));
  }

  void mlp(const std::string& name) {
    const int hidden =
        linear(name + ".linear1", norm(name + ".norm"), 4 * sizes_.channels, kWideBits);
    const int bent = builder_.add(ops::kGelu, name + ".gelu", {hidden});
    add_to_stream(name + ".add", linear(name + ".linear2", bent, sizes_.channels, kWideBits));
  }

  void encode() {
    stream_ = positions("encoder.positions", embedded_, sizes_.source);
    for (int64_t i = 1; i <= sizes_.layers; ++i) {
      const std::string name = "encoder" + std::to_string(i);
      const int normed = norm(name + ".self.norm");
      attend(name + ".self", normed, normed, Sight::kSource);
      mlp(name + ".mlp");
    }
    encoded_ = norm("encoder.norm");
  }

  void decoder_block(const std::string& name) {
    const int normed = norm(name + ".self.norm");
    attend(name + ".self", normed, normed, Sight::kTarget);
    attend(name + ".cross", norm(name + ".cross.norm"), encoded_, Sight::kAcross);
    mlp(name + ".mlp");
  }

  const TranslationSizes sizes_;
  GraphBuilder builder_;
  int lengths_ = 0, embedded_ = 0, encoded_ = 0, stream_ = 0;
};

}  // namespace

Result<Graph> transformer_translator(std::string_view name, const TranslationSizes& sizes) {
  if (sizes.layers < 1) return invalid_input("a network that translates has at least one layer");
  return Translator(name, sizes).classify();
}

TranslationSizes translation_sizes(const ModelOptions& options) {
  TranslationSizes sizes{.vocabulary = options.classes,
                         .source = options.sequence,
                         .target = options.sequence,
                         .tied = options.tied};
  sizes.channels =
      channels_of_heads(sizes.heads, sizes.channels / sizes.heads, options.width_multiplier);
  return sizes;
}

Result<Graph> transformer_nmt(std::string_view name, const ModelOptions& options) {
  MANTISSA_ASSIGN(Graph graph, transformer_translator(name, translation_sizes(options)));
  return ops::with_loss(std::move(graph), loss_options(options));
}

}  // namespace mantissa
