// Decoders in Llama's layout. The recipe for 8 bits is that of transformer.cpp with more: a
// pretrained network has channels and tokens that are far larger than the rest (docs/language.md,
// 0151). 16 bits have the residual stream and the values added to it, all of the gated layers up to
// the input of the last one, queries, keys, and the classifier's input; probabilities are relative
// to their row.
#include "models/decoder.h"

#include <string>
#include <utility>

#include "models/decoder_layers.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

class Llama {
 public:
  Llama(std::string_view name, const DecoderSizes& sizes, int64_t sequence)
      : sizes_(sizes), builder_(std::string(name)) {
    embedded_ = add_embedded_tokens(builder_, sequence, sizes.vocabulary, sizes.channels);
    stream_ = embedded_;
    for (int64_t i = 1; i <= sizes.layers; ++i) block("block" + std::to_string(i));
  }

  Result<Graph> classify() {
    return classified(builder_, norm("norm", kWideBits), sizes_, embedded_);
  }

 private:
  int norm(const std::string& name, int64_t least_bits = 0) {
    return builder_.add(ops::kRmsNorm, name, {stream_},
                        {{"epsilon", sizes_.epsilon}, {"least_bits", least_bits}});
  }
  // Queries or keys, turned; before that each head is normalised by itself, if the model has it so.
  int turned_heads(const std::string& block, const std::string& name, int value, int64_t heads) {
    if (sizes_.head_norms) {
      value = builder_.add(
          ops::kRmsNorm, block + "." + name + "_norm", {value},
          {{"epsilon", sizes_.epsilon}, {"heads", heads}, {"least_bits", kWideBits}});
    }
    return builder_.add(ops::kRotary, block + ".turned_" + name, {value},
                        {{"heads", heads},
                         {"base", sizes_.rotary_base},
                         {"factors", sizes_.rotary_factors},
                         {"least_bits", kWideBits}});
  }
  int linear(const std::string& name, int from, int64_t channels, int64_t least_bits, bool bias,
             int64_t input_bits = 0) {
    return builder_.add(ops::kLinear, name, {from},
                        {{"channels", channels},
                         {"initialiser", "fan-in"},
                         {"least_bits", least_bits},
                         {"input_bits", input_bits},
                         {"bias", bias ? 1 : 0}});
  }

  void block(const std::string& name) {
    const int64_t queries = sizes_.heads * sizes_.head_channels;
    const int64_t keys = sizes_.key_heads * sizes_.head_channels;
    const int normed = norm(name + ".norm1");
    const int query = linear(name + ".query", normed, queries, kWideBits, sizes_.query_bias);
    const int key = linear(name + ".key", normed, keys, kWideBits, sizes_.query_bias);
    const int value = linear(name + ".value", normed, keys, 0, sizes_.query_bias);
    const int heads =
        builder_.add(ops::kAttention, name + ".attention",
                     {turned_heads(name, "query", query, sizes_.heads),
                      turned_heads(name, "key", key, sizes_.key_heads), value},
                     {{"heads", sizes_.heads},
                      {"kv_heads", sizes_.key_heads},
                      {"causal", 1},
                      {"probabilities", "row"},
                      {"input_bits", kWideBits}});
    stream_ = add_to_stream(builder_, name + ".add1", stream_,
                            linear(name + ".project", heads, sizes_.channels, kWideBits, false));
    const int inner = norm(name + ".norm2");
    const int gate = builder_.add(ops::kSilu, name + ".silu",
                                  {linear(name + ".gate", inner, sizes_.inner, kWideBits, false)},
                                  {{"least_bits", kWideBits}});
    const int gated =
        builder_.add(ops::kMultiply, name + ".multiply",
                     {gate, linear(name + ".up", inner, sizes_.inner, kWideBits, false)},
                     {{"least_bits", kWideBits}});
    stream_ = add_to_stream(
        builder_, name + ".add2", stream_,
        linear(name + ".down", gated, sizes_.channels, kWideBits, false, kWideBits));
  }

  const DecoderSizes& sizes_;
  GraphBuilder builder_;
  int embedded_ = 0, stream_ = 0;
};

}  // namespace

Result<Graph> llama_lm(std::string_view name, const DecoderSizes& sizes, int64_t sequence) {
  return Llama(name, sizes, sequence).classify();
}

}  // namespace mantissa
