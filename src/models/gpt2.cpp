// Decoders in GPT-2's layout. The recipe for 8 bits is llama.cpp's: 16 bits have the residual
// stream and the values added to it, queries, keys and values, which are channels of one layer, the
// inner layer up to the input of the last one, and the classifier's input.
#include <string>
#include <utility>

#include "models/decoder_layers.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

class Gpt2 {
 public:
  Gpt2(std::string_view name, const DecoderSizes& sizes, int64_t sequence)
      : sizes_(sizes), builder_(std::string(name)) {
    embedded_ = add_embedded_tokens(builder_, sequence, sizes.vocabulary, sizes.channels);
    stream_ = builder_.add(ops::kPositionEmbedding, "positions", {embedded_},
                           {{"positions", sizes.positions}, {"least_bits", kWideBits}});
    for (int64_t i = 1; i <= sizes.layers; ++i) block("block" + std::to_string(i));
  }

  Result<Graph> classify() {
    return classified(builder_, norm("norm", kWideBits), sizes_, embedded_);
  }

 private:
  int norm(const std::string& name, int64_t least_bits = 0) {
    return builder_.add(ops::kLayerNorm, name, {stream_},
                        {{"epsilon", sizes_.epsilon}, {"least_bits", least_bits}});
  }
  int linear(const std::string& name, int from, int64_t channels, int64_t input_bits = 0) {
    return builder_.add(ops::kLinear, name, {from},
                        {{"channels", channels},
                         {"initialiser", "fan-in"},
                         {"least_bits", kWideBits},
                         {"input_bits", input_bits}});
  }
  int channels_of(const std::string& name, int all, int64_t place) {
    return builder_.add(
        ops::kSlice, name, {all},
        {{"first", place * sizes_.channels}, {"channels", sizes_.channels}});
  }

  void block(const std::string& name) {
    const int all = linear(name + ".qkv", norm(name + ".norm1"), 3 * sizes_.channels);
    const int heads = builder_.add(
        ops::kAttention, name + ".attention",
        {channels_of(name + ".query", all, 0), channels_of(name + ".key", all, 1),
         channels_of(name + ".value", all, 2)},
        {{"heads", sizes_.heads},
         {"causal", 1},
         {"probabilities", "row"},
         {"input_bits", kWideBits}});
    stream_ = add_to_stream(builder_, name + ".add1", stream_,
                            linear(name + ".project", heads, sizes_.channels));
    const int inner = linear(name + ".linear1", norm(name + ".norm2"), sizes_.inner);
    const int bent =
        builder_.add(ops::kGeluTanh, name + ".gelu", {inner}, {{"least_bits", kWideBits}});
    stream_ = add_to_stream(builder_, name + ".add2", stream_,
                            linear(name + ".linear2", bent, sizes_.channels, kWideBits));
  }

  const DecoderSizes& sizes_;
  GraphBuilder builder_;
  int embedded_ = 0, stream_ = 0;
};

}  // namespace

Result<Graph> gpt2_lm(std::string_view name, const DecoderSizes& sizes, int64_t sequence) {
  return Gpt2(name, sizes, sequence).classify();
}

Result<Graph> decoder_lm(std::string_view name, const DecoderSizes& sizes, int64_t sequence) {
  const auto make = sizes.layout == DecoderLayout::kLlama ? llama_lm : gpt2_lm;
  return make(name, sizes, sequence);
}

}  // namespace mantissa
