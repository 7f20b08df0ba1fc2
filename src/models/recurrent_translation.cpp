// A translator of LSTM layers: the decoder's first layer asks the encoder's results by attention
// (Luong et al. 2015, arXiv:1508.04025), its second goes on from both. States begin with zeros:
// the source comes in through attention alone. Bits as in recurrent.cpp: gates and values added to
// a state have 16 bits.
#include <cstdint>
#include <string>
#include <utility>

#include "models/language_layers.h"
#include "models/networks.h"
#include "models/translation.h"
#include "ops/loss.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

constexpr int64_t kLstmGates = 4;

class RecurrentTranslator {
 public:
  RecurrentTranslator(std::string_view name, const TranslationSizes& sizes)
      : sizes_(sizes), builder_(std::string(name)) {}

  Result<Graph> build() {
    const int source = builder_.add_input(kSourceTokens, Shape{sizes_.source}, Element::kIndex);
    lengths_ = builder_.add_input(kSourceLengths, Shape{}, Element::kIndex);
    const int target = builder_.add_input(kTargetTokens, Shape{sizes_.target}, Element::kIndex);
    const Attributes table = {{"rows", sizes_.vocabulary}, {"channels", sizes_.channels}};
    const int embedded = builder_.add(ops::kEmbedding, "embedding", {source}, table);
    int encoded = embedded;
    for (int64_t i = 1; i <= sizes_.layers; ++i) {
      encoded = lstm("encoder" + std::to_string(i), encoded, true);
    }
    int h = builder_.add_sharing(embedded, ops::kEmbedding, "decoder.embedding", {target}, table);
    h = lstm("decoder1", h, false);
    int stream = add_to_stream(builder_, "decoder.add", h, attended("decoder.cross", h, encoded));
    for (int64_t i = 2; i <= sizes_.layers; ++i) {
      const std::string layer = "decoder" + std::to_string(i);
      stream = add_to_stream(builder_, layer + ".add", stream, lstm(layer, stream, false));
    }
    const int normed = builder_.add(ops::kLayerNorm, "decoder.norm", {stream});
    return builder_.finish(
        add_classifier(builder_, normed, sizes_.vocabulary, sizes_.tied, embedded));
  }

 private:
  int linear(const std::string& name, int from, int64_t channels, int64_t least_bits = 0) {
    return add_linear(builder_, name, from, channels, least_bits);
  }

  // The layers of the source pass over its padding.
  int lstm(const std::string& name, int from, bool is_source) {
    const int gates = linear(name + ".input", from, kLstmGates * sizes_.channels, kWideBits);
    return is_source ? builder_.add(ops::kLstm, name, {gates, lengths_})
                     : builder_.add(ops::kLstm, name, {gates});
  }

  // The attention of states to the source.
  int attended(const std::string& name, int state, int encoded) {
    const int heads = builder_.add(ops::kAttention, name + ".attention",
                                   {linear(name + ".query", state, sizes_.channels),
                                    linear(name + ".key", encoded, sizes_.channels),
                                    linear(name + ".value", encoded, sizes_.channels), lengths_},
                                   {{"heads", sizes_.heads}, {"cross", 1}});
    return linear(name + ".project", heads, sizes_.channels, kWideBits);
  }

  const TranslationSizes sizes_;
  GraphBuilder builder_;
  int lengths_ = 0;
};

}  // namespace

Result<Graph> lstm_translator(std::string_view name, const TranslationSizes& sizes) {
  if (sizes.layers < 1) return invalid_input("a network that translates has at least one layer");
  return RecurrentTranslator(name, sizes).build();
}

Result<Graph> lstm_nmt(std::string_view name, const ModelOptions& options) {
  MANTISSA_ASSIGN(Graph graph, lstm_translator(name, translation_sizes(options)));
  return ops::with_loss(std::move(graph), loss_options(options));
}

}  // namespace mantissa
