// Vision transformers of small pictures: patches as a sequence, a class token before them, trained
// positions, blocks with norms before each part, and a classifier on the token. The recipe for 8
// bits is that of language models: the residual stream, the values added to it and GELU's input
// have 16 bits.
#include <algorithm>
#include <string>

#include "models/language_layers.h"
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

constexpr int64_t kVitHeads = 4, kVitHeadChannels = 16;
constexpr int kVitBlocks = 4;

class VisionTransformer {
 public:
  VisionTransformer(std::string_view name, const ModelOptions& options)
      : net_(name, options),
        channels_(channels_of_heads(kVitHeads, kVitHeadChannels, options.width_multiplier)) {
    // About seven patches along the longer side, as 4x4 pixels of 28; 16x16 pixels at most.
    const int64_t longer = std::max(options.height, options.width);
    const int64_t patch = std::clamp<int64_t>(longer / 7, 1, 16);
    const int64_t rows = options.height / patch, columns = options.width / patch;
    net_.convolution("patches", channels_, patch, patch, 0, true);
    net_.add(ops::kReshape, "sequence", {{"width", rows * columns}, {"channels", channels_}});
    net_.add(ops::kPrependRows, "token", {{"least_bits", kWideBits}});
    stream_ = net_.add(ops::kPositionEmbedding, "positions",
                       {{"positions", rows * columns + 1}, {"least_bits", kWideBits}});
  }

  void block(const std::string& name) {
    const int normed = norm(name + ".norm1");
    const auto linear_of = [&](const char* part) {
      return linear(name + part, normed, channels_);
    };
    const int query = linear_of(".query"), key = linear_of(".key"), value = linear_of(".value");
    const int heads = net_.join(ops::kAttention, name + ".attention", {query, key, value},
                                {{"heads", kVitHeads}});
    add_to_stream(name + ".add1", linear(name + ".project", heads, channels_, kWideBits));
    const int hidden = linear(name + ".linear1", norm(name + ".norm2"), 4 * channels_, kWideBits);
    const int bent = net_.join(ops::kGelu, name + ".gelu", {hidden});
    add_to_stream(name + ".add2", linear(name + ".linear2", bent, channels_, kWideBits));
  }

  Result<Graph> classify() {
    norm("norm");
    net_.add(ops::kSlice, "chosen", {{"channels", channels_}, {"position", 0}});
    net_.add(ops::kFlatten, "flatten");
    return net_.classify();
  }

 private:
  int norm(const std::string& name) { return net_.join(ops::kLayerNorm, name, {stream_}); }
  int linear(const std::string& name, int from, int64_t channels, int64_t least_bits = 0) {
    return net_.join(
        ops::kLinear, name, {from},
        {{"channels", channels}, {"initialiser", "fan-in"}, {"least_bits", least_bits}});
  }
  void add_to_stream(const std::string& name, int value) {
    stream_ = net_.join(ops::kAdd, name, {stream_, value}, {{"least_bits", kWideBits}});
  }

  Layers net_;
  int64_t channels_;
  int stream_ = 0;
};

}  // namespace

Result<Graph> vit_tiny(std::string_view name, const ModelOptions& options) {
  VisionTransformer net(name, options);
  for (int i = 1; i <= kVitBlocks; ++i) net.block("block" + std::to_string(i));
  return net.classify();
}

}  // namespace mantissa
