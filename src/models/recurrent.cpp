// Language models of recurrent layers: an embedding, two layers, a classifier. A linear layer
// computes the input's part of the gates for all positions at once, with 16 bits, since gates are
// functions of 16-bit values (docs/language.md).
#include <string>
#include <utility>

#include "models/language_layers.h"
#include "models/networks.h"
#include "ops/loss.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

constexpr int64_t kChannels = 128;
constexpr int kLayers = 2;

Result<Graph> recurrent_lm(std::string_view name, const ModelOptions& options, const Op& op,
                           int64_t gates) {
  const int64_t channels = channels_of_heads(1, kChannels, options.width_multiplier);
  GraphBuilder builder{std::string(name)};
  const int embedded = add_embedded_tokens(builder, options.sequence, options.classes, channels);
  int h = embedded;
  for (int i = 1; i <= kLayers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    const int of_input = add_linear(builder, layer + ".input", h, gates * channels, kWideBits);
    h = builder.add(op, layer, {of_input});
  }
  const int logits = add_classifier(builder, h, options.classes, options.tied, embedded);
  MANTISSA_ASSIGN(Graph graph, builder.finish(logits));
  return ops::with_loss(std::move(graph), loss_options(options));
}

}  // namespace

Result<Graph> lstm_lm(std::string_view name, const ModelOptions& options) {
  return recurrent_lm(name, options, ops::kLstm, 4);
}

Result<Graph> gru_lm(std::string_view name, const ModelOptions& options) {
  return recurrent_lm(name, options, ops::kGru, 3);
}

}  // namespace mantissa
