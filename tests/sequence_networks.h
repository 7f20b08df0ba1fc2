// Small networks over sequences and patches, with attention and recurrent layers; part of networks.h.
#pragma once

#include "tests/fashion_layers.h"

namespace mantissa::testing {

// A block of a transformer over the pixels of a small image, with a residual stream of 16 bits.
inline Graph with_attention() {
  Layers net("attention", fashion_options());
  net.convolution("conv", 16, 5, 4, 2, false);
  net.reshape("sequence", 1, 49, 16);
  const auto linear = [&](const char* name, int64_t channels, int64_t bits) {
    return net.add(ops::kLinear, name,
                   {{"channels", channels}, {"initialiser", "fan-in"}, {"least_bits", bits}});
  };
  const auto sum = [&](const char* name, int a, int b) {
    return net.join(ops::kAdd, name, {a, b}, {{"least_bits", 16}});
  };
  const int stream =
      net.add(ops::kPositionEmbedding, "positions", {{"positions", 60}, {"least_bits", 16}});
  const int normed = net.add(ops::kLayerNorm, "norm1");
  std::vector<int> heads;
  for (const char* name : {"query", "key", "value"}) {
    net.continue_from(normed);
    heads.push_back(linear(name, 16, 0));
  }
  net.join(ops::kAttention, "attention", heads, {{"heads", 2}, {"causal", 1}});
  const int added = sum("add1", stream, linear("project", 16, 16));
  net.add(ops::kRmsNorm, "norm2");
  linear("linear1", 32, 16);
  net.add(ops::kGelu, "gelu");
  sum("add2", added, linear("linear2", 16, 16));
  net.add(ops::kSilu, "silu");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// A vision transformer's layers on the patches of a picture: a class token, positions of all kinds,
// heads that share keys, a window, and rows that join the sequence later.
inline Graph with_patches() {
  Layers net("patches", fashion_options());
  net.convolution("patches", 16, 7, 7, 0, true);
  net.add(ops::kReshape, "sequence", {{"width", 16}, {"channels", 16}});
  net.add(ops::kPrependRows, "token", {{"least_bits", 16}});
  net.add(ops::kPositionEmbedding, "positions", {{"positions", 17}, {"least_bits", 16}});
  const int stream = net.add(ops::kSinusoidalPositions, "sines", {{"least_bits", 16}});
  const int normed = net.add(ops::kLayerNorm, "norm");
  const auto part = [&](const char* name, int64_t channels, int64_t heads) {
    net.continue_from(normed);
    net.add(ops::kLinear, name, {{"channels", channels}, {"initialiser", "fan-in"}});
    if (heads > 0) net.add(ops::kRotary, name + std::string("_turned"), {{"heads", heads}});
    return net.last();
  };
  const int query = part("query", 16, 4), key = part("key", 8, 2), value = part("value", 8, 0);
  net.join(ops::kAttention, "attention", {query, key, value},
           {{"heads", 4}, {"kv_heads", 2}, {"window", 5}});
  const int added = net.join(ops::kAdd, "add", {stream, net.last()}, {{"least_bits", 16}});
  net.join(ops::kConcatPositions, "joined", {added, normed});
  net.slice("first", net.last(), 0, 12);
  net.add(ops::kSlice, "chosen", {{"channels", 12}, {"position", 0}});
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Parts of other language models: channels of one layer, norms within heads, scaled angles, and GELU
// by tanh.
inline Graph with_heads() {
  Layers net("heads", fashion_options());
  net.convolution("patches", 16, 7, 7, 0, true);
  net.add(ops::kReshape, "sequence", {{"width", 16}, {"channels", 16}});
  const int all = net.add(ops::kLinear, "all",
                          {{"channels", 48}, {"initialiser", "fan-in"}, {"least_bits", 16}});
  std::vector<int> parts;
  for (const std::string name : {"query", "key", "value"}) {
    net.continue_from(all);
    const auto first = static_cast<int64_t>(16 * parts.size());
    net.add(ops::kSlice, name, {{"first", first}, {"channels", 16}});
    if (name != "value") {
      net.add(ops::kRmsNorm, name + "_norm", {{"heads", 2}, {"least_bits", 16}});
      net.add(ops::kRotary, name + "_turned",
              {{"heads", 2}, {"factors", WholeList{1 << 23, 3 << 22, 5 << 23, 1 << 26}}});
    }
    parts.push_back(net.last());
  }
  net.join(ops::kAttention, "attention", parts, {{"heads", 2}, {"causal", 1}});
  net.add(ops::kGeluTanh, "gelu", {{"least_bits", 16}});
  net.add(ops::kLayerNorm, "norm", {{"heads", 4}});
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Attention whose scores have biases by distance: in a picture of patches, and in a sequence.
inline Graph with_biased_attention() {
  Layers net("biased", fashion_options());
  net.convolution("patches", 16, 7, 7, 0, true);
  const int rows = net.add(ops::kReshape, "sequence", {{"width", 16}, {"channels", 16}});
  const auto attention = [&](const std::string& name, int from, const Attributes& attributes) {
    std::vector<int> inputs;
    for (const char* part : {".query", ".key", ".value"}) {
      inputs.push_back(net.join(ops::kLinear, name + part, {from},
                                {{"channels", 16}, {"initialiser", "fan-in"}}));
    }
    return net.join(ops::kAttention, name, inputs, attributes);
  };
  const int first =
      attention("picture", rows, {{"heads", 4}, {"bias_height", 4}, {"bias_width", 4}});
  net.sum("add1", rows, first);
  const int normed = net.add(ops::kLayerNorm, "norm");
  attention("sequence2", normed, {{"heads", 2}, {"causal", 1}, {"bias_width", 20}});
  net.sum("add2", normed, net.last());
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// The rows of a small image as a sequence, through recurrent layers of all kinds.
inline Graph with_recurrent_layers() {
  Layers net("recurrent", fashion_options());
  net.convolution("conv", 8, 5, 4, 2, false);
  net.reshape("sequence", 1, 7, 56);
  const auto gates = [&](const char* name, int64_t channels) {
    net.add(ops::kLinear, name,
            {{"channels", channels}, {"initialiser", "fan-in"}, {"least_bits", 16}});
  };
  gates("gates1", 48);
  net.add(ops::kLstm, "lstm", {{"peepholes", 1}});
  gates("gates2", 30);
  net.add(ops::kGru, "gru");
  gates("gates3", 10);
  net.add(ops::kRnn, "rnn");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// The same rows, read in both directions.
inline Graph with_both_directions() {
  Layers net("directions", fashion_options());
  net.convolution("conv", 8, 5, 4, 2, false);
  const int rows = net.reshape("sequence", 1, 7, 56);
  const auto layer = [&](const std::string& name, int from) {
    net.join(ops::kLinear, name + ".gates", {from},
             {{"channels", 30}, {"initialiser", "fan-in"}, {"least_bits", 16}});
    return net.add(ops::kGru, name);
  };
  const int forward = layer("forward", rows);
  layer("backward", net.join(ops::kReverse, "turned", {rows}));
  const int back = net.add(ops::kReverse, "back");
  net.concat("both", {forward, back});
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

}  // namespace mantissa::testing
