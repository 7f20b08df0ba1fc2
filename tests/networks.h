// Small networks that together hold every operator; operators_test.cpp checks that they do.
#pragma once

#include <string>
#include <vector>

#include "networks/adapters.h"
#include "tests/fashion_layers.h"
#include "tests/sequence_networks.h"

namespace mantissa::testing {

struct NamedNetwork {
  std::string name;
  Graph (*build)();
};

inline void PrintTo(const NamedNetwork& network, std::ostream* out) { *out << network.name; }

// Convolution, batch norm, the function; a linear layer, the function.
template <int (Layers::*kFunction)(const std::string&)>
Graph with_function() {
  Layers net("function", fashion_options());
  net.convolution("conv", 8, 5, 2, 2, false);
  net.batch_norm("norm");
  (net.*kFunction)("function1");
  net.add(ops::kMaxPool, "pool", {{"window", 2}});
  net.add(ops::kFlatten, "flatten");
  net.linear("linear", 32);
  (net.*kFunction)("function2");
  return finished(net);
}

// A difference, and reductions over all axes.
inline Graph with_reductions() {
  Layers net("reductions", fashion_options());
  net.convolution("conv1", 8, 5, 4, 2, true);
  const int first = net.relu("relu1");
  net.convolution("conv2", 8, 3, 1, 1, true);
  net.join(ops::kSubtract, "difference", {first, net.last()});
  const int bent = net.tanh("bent");
  std::vector<int> parts;
  const auto reduce = [&](const Op& op, const std::string& name, const char* over) {
    net.join(op, name, {bent}, {{"over", over}});
    parts.push_back(net.add(ops::kFlatten, name + "_flat"));
  };
  parts.push_back(net.join(ops::kReduceMax, "largest", {bent}));
  reduce(ops::kReduceMean, "rows", "height");
  reduce(ops::kReduceSum, "columns", "width");
  reduce(ops::kReduceMean, "gray", "channels");
  reduce(ops::kReduceMax, "bright", "channels");
  net.concat("parts", parts);
  net.batch_norm("norm");  // sums are large
  return finished(net);
}

// Group norm, instance norm, and layer norm over the channels of each pixel.
inline Graph with_norms_of_pictures() {
  Layers net("picture_norms", fashion_options());
  net.convolution("conv1", 8, 5, 2, 2, true);
  net.group_norm("groups", 4);
  net.relu("relu1");
  net.convolution("conv2", 8, 3, 2, 1, true);
  net.group_norm("instance", 8);
  net.gelu("gelu");
  net.convolution("conv3", 8, 3, 1, 1, true);
  net.layer_norm("layer");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

inline Graph with_trained_slopes() {
  Layers net("slopes", fashion_options());
  net.convolution("conv1", 8, 5, 2, 2, true);
  net.prelu("prelu1");
  net.convolution("conv2", 8, 3, 2, 1, true);
  net.add(ops::kPrelu, "prelu2", {{"shared", 1}});
  net.elu("elu", 0.5);
  net.add(ops::kFlatten, "flatten");
  net.linear("linear", 32);
  net.softplus("softplus");
  return finished(net);
}

inline Graph with_leaky_relu_and_dropout() {
  Layers net("dropout", fashion_options());
  net.convolution("conv", 8, 5, 2, 2, true);
  net.leaky_relu("leaky1", 0.125);
  net.add(ops::kMaxPool, "pool", {{"window", 2}});
  net.dropout("dropout1", 6554 / 65536.0);
  net.add(ops::kFlatten, "flatten");
  net.linear("linear", 64);
  net.leaky_relu("leaky2");
  net.dropout("dropout2", 0.25);
  return finished(net);
}

// Padding for an even kernel, groups that exchange channels, a reshape and back.
inline Graph with_rearrangements() {
  Layers net("rearranged", fashion_options());
  net.pad("pad1", 1, 2, 2, 1);
  net.convolution("conv1", 8, 4, 2, 0, true);
  net.relu("relu1");
  net.channel_shuffle("shuffle1", 4);
  net.convolution("conv2", 8, 3, 2, 1, true, 2);
  net.relu("relu2");
  net.channel_shuffle("shuffle2", 2);
  net.pad("pad2", 0, 1, 0, 1);
  net.reshape("reshape", 16, 16, 2);
  net.convolution("conv3", 8, 3, 2, 1, true);
  net.relu("relu3");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Kernels, strides and padding that differ between the axes, dense, in groups and depthwise.
inline Graph with_rectangles() {
  Layers net("rectangles", fashion_options());
  const auto convolution = [&](const char* name, int64_t groups, WholeList kernel, WholeList stride,
                               WholeList padding) {
    net.add(ops::kConvolution, name,
            {{"channels", 8},
             {"groups", groups},
             {"kernel", kernel[0]},
             {"kernel_width", kernel[1]},
             {"stride", stride[0]},
             {"stride_width", stride[1]},
             {"padding", padding[0]},
             {"padding_width", padding[1]}});
  };
  convolution("conv1", 1, {1, 7}, {2, 2}, {0, 3});  // Inception's
  net.relu("relu1");
  convolution("conv2", 1, {5, 1}, {1, 1}, {2, 0});
  net.relu("relu2");
  convolution("conv3", 8, {3, 3}, {2, 1}, {1, 1});  // of text recognition
  net.relu("relu3");
  convolution("conv4", 1, {3, 2}, {1, 2}, {1, 0});
  net.add(
      ops::kAveragePool, "average",
      {{"window", 3}, {"window_width", 2}, {"stride", 1}, {"padding", 1}, {"padding_width", 0}});
  net.add(ops::kOverlappingMaxPool, "maximum",
          {{"window", 2}, {"window_width", 3}, {"stride_width", 1}});
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// A small temporal network over the pixels as a sequence: convolutions and pools over one axis,
// padded on both sides and causal, dilated, dense and depthwise, with a residual block.
inline Graph with_sequence_convolutions() {
  Layers net("sequences", fashion_options());
  net.reshape("sequence", 0, 196, 4);
  net.add(ops::kConvolution, "conv1",
          {{"channels", 8}, {"kernel", 7}, {"stride", 2}, {"padding", 3}, {"bias", 0}});
  net.batch_norm("norm1");
  const int input = net.relu("relu1");
  net.add(ops::kConvolution, "conv2",
          {{"channels", 8}, {"kernel", 3}, {"dilation", 4}, {"causal", 1}, {"groups", 8}});
  net.add(ops::kConvolution, "conv3", {{"channels", 8}, {"kernel", 5}, {"causal", 1}});
  net.sum("add", net.last(), input);
  net.relu("relu3");
  net.add(ops::kAveragePool, "average", {{"window", 3}, {"stride", 2}, {"padding", 1}});
  net.add(ops::kOverlappingMaxPool, "maximum", {{"window", 2}});
  net.add(ops::kConvolution, "conv4",
          {{"channels", 16}, {"kernel", 3}, {"stride", 2}, {"causal", 1}});
  const int values = net.relu("relu4");
  net.add(ops::kGlobalAveragePool, "mean");
  net.linear("gate", 16);
  net.product("gated", values, net.sigmoid("sigmoid"));
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Volumes: convolutions over three axes, dense and depthwise, with strides and dilation, pools of
// images and of the depth, padding and larger images, and the mean over all three axes.
inline Graph with_volumes() {
  Layers net("volumes", fashion_options());
  net.add(ops::kReshape, "volume", {{"depth", 7}, {"height", 14}, {"width", 8}, {"channels", 1}});
  net.depth_taps("taps1", 3, 1, 1);
  net.convolution("conv1", 8, 3, 1, 1, false);
  net.batch_norm("norm1");
  net.relu("relu1");
  net.add(ops::kMaxPool, "maximum", {{"window", 2}});
  net.add(ops::kOverlappingMaxPool, "deep_maximum",
          {{"over", "depth"}, {"window", 3}, {"stride", 1}, {"padding", 1}});
  net.add(ops::kDepthTaps, "taps2", {{"kernel", 2}, {"dilation", 2}, {"padding_end", 1}});
  net.convolution("conv2", 8, 3, 1, 1, true, 8);
  const int values = net.relu("relu2");
  net.add(ops::kAveragePool, "deep_mean", {{"over", "depth"}, {"window", 2}});
  net.pad("pad", 1, 0, 0, 2);
  net.depth_taps("taps3", 3, 2, 1, 1);
  net.convolution("conv3", 16, 3, 2, 0, true);
  net.relu("relu3");
  const int small = net.add(ops::kFlatten, "flatten");
  net.continue_from(values);
  net.add(ops::kTransposedConvolution, "up", {{"channels", 8}});
  net.batch_norm("norm4");
  net.relu("relu4");
  net.add(ops::kUpsample, "repeated", {{"factor", 2}, {"factor_width", 1}});
  const int mean = net.add(ops::kGlobalAveragePool, "mean");
  net.concat("parts", {small, mean});
  return finished(net);
}

// A small U-Net: down by strides, up by transposed convolutions, by repetition and by
// interpolation, with skips that are joined.
inline Graph with_upsampling() {
  Layers net("upsampled", fashion_options());
  net.convolution("conv1", 6, 3, 2, 1, false);
  net.batch_norm("norm1");
  const int large = net.relu("relu1");
  net.convolution("conv2", 12, 3, 2, 1, true);
  const int small = net.relu("relu2");
  net.add(ops::kTransposedConvolution, "up1", {{"channels", 6}});
  const int up = net.relu("relu3");
  net.concat("joined1", {large, up});
  net.convolution("conv3", 8, 3, 2, 1, true);
  const int back = net.relu("relu4");
  net.continue_from(small);
  net.convolution("conv4", 6, 1, 1, 0, true);
  net.add(ops::kUpsample, "repeated", {{"factor", 2}});
  net.add(ops::kBilinearResize, "interpolated", {{"height", 7}, {"width", 7}});
  net.concat("joined2", {back, net.last()});
  net.add(ops::kTransposedConvolution, "up2",
          {{"channels", 4}, {"kernel", 3}, {"padding", 1}, {"output_padding", 1}, {"bias", 0}});
  net.batch_norm("norm5");
  net.relu("relu5");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Transposed convolutions in groups, and of each channel alone.
inline Graph with_grouped_upsampling() {
  Layers net("grouped_upsampling", fashion_options());
  net.convolution("conv1", 8, 5, 4, 2, true);
  net.relu("relu1");
  net.add(ops::kTransposedConvolution, "up1", {{"channels", 12}, {"groups", 4}});
  net.batch_norm("norm1");
  net.relu("relu2");
  net.add(ops::kTransposedConvolution, "up2",
          {{"channels", 12}, {"groups", 12}, {"kernel", 3}, {"stride", 1}, {"padding", 1}});
  net.relu("relu3");
  net.add(ops::kTransposedConvolution, "up3",
          {{"channels", 4}, {"groups", 2}, {"kernel", 3}, {"padding", 1}, {"bias", 0}});
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Sums whose weights are a softmax over the positions, the height or the channels; and rows of a
// picture that are taken, some twice, and put elsewhere.
inline Graph with_softmax_and_rows() {
  Layers net("softmax", fashion_options());
  net.convolution("conv1", 8, 5, 4, 2, true);
  const int image = net.relu("relu1");
  std::vector<int> parts;
  for (const char* over : {"positions", "height", "channels"}) {
    const std::string name = over;
    net.continue_from(image);
    net.convolution(name + "_scores", 8, 3, 1, 1, true);
    const int shares = net.add(ops::kSoftmax, name + "_shares", {{"over", over}});
    net.product(name + "_weighted", image, shares);
    net.add(ops::kReduceSum, name + "_sum", {{"over", over}});
    parts.push_back(net.add(ops::kFlatten, name + "_flat"));
  }
  net.continue_from(image);
  net.reshape("sequence", 0, 49, 8);
  WholeList taken, put;
  for (int64_t i = 0; i < 26; ++i) {
    taken.push_back(i % 7 == 6 ? 24 : 2 * i % 49);
    put.push_back((i * 11 + 3) % 30);
  }
  net.add(ops::kGatherRows, "taken", {{"rows", taken}});
  net.linear("rows", 8);
  net.relu("relu2");
  net.add(ops::kScatterRows, "put", {{"rows", put}, {"positions", 30}});
  parts.push_back(net.add(ops::kFlatten, "put_flat"));
  net.concat("parts", parts);
  net.batch_norm("norm");
  return finished(net);
}

// Dilation with strides, groups and one channel at a time.
inline Graph with_dilation() {
  Layers net("dilated", fashion_options());
  net.convolution("conv1", 8, 3, 2, 2, true, 1, 2);
  net.relu("relu1");
  net.convolution("conv2", 8, 3, 1, 2, true, 8, 2);
  net.convolution("conv3", 8, 3, 2, 3, false, 2, 3);
  net.batch_norm("norm3");
  net.relu("relu3");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// A residual block with squeeze-and-excitation, and a product of two branches.
inline Graph with_products() {
  Layers net("products", fashion_options());
  net.convolution("conv1", 8, 5, 2, 2, false);
  net.batch_norm("norm1");
  const int input = net.relu("relu1");
  net.convolution("conv2", 8, 3, 1, 1, false);
  const int branch = net.batch_norm("norm2");
  net.add(ops::kGlobalAveragePool, "squeeze");
  net.linear("reduce", 4);
  net.relu("reduce_relu");
  net.linear("expand", 8);
  const int gate = net.hard_sigmoid("gate");
  const int gated = net.product("excite", branch, gate);
  net.sum("add", gated, input);
  const int joined = net.relu("relu2");
  net.convolution("conv3", 8, 3, 2, 1, true);
  const int left = net.tanh("left");
  net.continue_from(joined);
  net.convolution("conv4", 8, 3, 2, 1, true);
  const int right = net.sigmoid("right");
  net.product("product", left, right);
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Windows that overlap and are padded, and branches side by side.
inline Graph with_windows() {
  Layers net("windows", fashion_options());
  net.convolution("conv1", 8, 5, 2, 2, true);
  const int input = net.relu("relu1");
  const int largest = net.max_pool("maximum", 3, 2, 1);
  net.continue_from(input);
  const int mean = net.average_pool("mean", 3, 2, 1);
  net.concat("concat", {largest, mean});
  net.convolution("conv2", 8, 3, 1, 1, true);
  net.relu("relu2");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// A block of ShuffleNet v2: half of the channels pass by, and a shuffle mixes both halves.
inline Graph with_slices() {
  Layers net("slices", fashion_options());
  net.convolution("conv1", 12, 5, 2, 2, true);
  const int both = net.relu("relu1");
  const int left = net.slice("left", both, 0, 6);
  net.slice("right", both, 6, 6);
  net.convolution("conv2", 6, 3, 1, 1, false);
  net.batch_norm("norm2");
  const int right = net.relu("relu2");
  net.concat("joined", {left, right});
  net.channel_shuffle("shuffle", 2);
  net.convolution("conv3", 8, 3, 2, 1, true);
  net.relu("relu3");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Layers of few bits, with and without a sign, in front of batch norm.
inline Graph with_quantised_layers() {
  Layers net("quantised", fashion_options());
  const auto quantised_convolution = [&](const std::string& name, int64_t bits, int64_t stride) {
    net.add(ops::kConvolution, name,
            {{"channels", int64_t{12}},
             {"kernel", int64_t{3}},
             {"stride", stride},
             {"padding", int64_t{1}},
             {"bias", int64_t{0}},
             {"weight_bits", bits},
             {"weight_exponent", 1 - bits}});
    net.batch_norm(name + "_norm");
  };
  net.convolution("conv1", 8, 5, 2, 2, false);
  net.batch_norm("norm1");
  net.relu("relu1");
  net.add(ops::kQuantise, "quantise1", {{"bits", int64_t{4}}, {"exponent", int64_t{-4}}});
  quantised_convolution("conv2", 4, 2);
  net.add(ops::kQuantise, "quantise2",
          {{"bits", int64_t{5}}, {"exponent", int64_t{-3}}, {"signed", int64_t{1}}});
  quantised_convolution("conv3", 3, 1);
  net.relu("relu3");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// A grid with an offset, and weights that are trained through tanh.
inline Graph with_offset_and_tanh() {
  Layers net("offset", fashion_options());
  net.convolution("conv1", 8, 5, 2, 2, false);
  net.batch_norm("norm1");
  net.add(ops::kQuantise, "quantise1",
          {{"bits", int64_t{3}}, {"exponent", int64_t{-2}}, {"offset", int64_t{1}}});
  net.add(ops::kConvolution, "conv2",
          {{"channels", int64_t{12}},
           {"kernel", int64_t{3}},
           {"stride", int64_t{2}},
           {"padding", int64_t{1}},
           {"bias", int64_t{0}},
           {"weight_bits", int64_t{4}},
           {"weight_exponent", int64_t{-3}},
           {"weight_tanh", int64_t{1}}});
  net.batch_norm("norm2");
  net.relu("relu2");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// Layers of few bits that no batch norm follows: with ranges, and weights alone.
inline Graph with_rescales() {
  Layers net("rescaled", fashion_options());
  net.convolution("conv1", 8, 5, 2, 2, false);
  net.add(ops::kRescale, "rescale1");
  net.relu("relu1");
  const int input =
      net.add(ops::kQuantise, "quantise2",
              {{"bits", int64_t{4}}, {"exponent", int64_t{-4}}, {"channels", int64_t{12}}});
  net.add(ops::kConvolution, "conv2",
          {{"channels", int64_t{12}},
           {"stride", int64_t{2}},
           {"padding", int64_t{1}},
           {"bias", int64_t{0}},
           {"weight_bits", int64_t{4}},
           {"weight_exponent", int64_t{-4}}});
  net.add_sharing(input, ops::kRescale, "rescale2",
                  {{"bits", int64_t{4}}, {"exponent", int64_t{-4}}});
  net.relu("relu2");
  net.add(ops::kFlatten, "flatten");
  return finished(net);
}

// The block of a transformer whose layers stay. Adapters beside them, norms and the classifier are
// trained.
inline Graph with_low_rank() {
  auto graph = with_adapters(with_attention(), {.rank = 4, .alpha = 6});
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  for (Parameter& parameter : graph->parameters) {
    const auto has = [&](const char* part) {
      return parameter.name.find(part) != std::string::npos;
    };
    parameter.trained = has(".lora_") || has("norm") || has("classifier");
  }
  return std::move(*graph);
}

inline const std::vector<NamedNetwork>& networks_of_all_operators() {
  static const std::vector<NamedNetwork> list = {
      {"relu6", with_function<&Layers::relu6>},
      {"sigmoid", with_function<&Layers::sigmoid>},
      {"tanh", with_function<&Layers::tanh>},
      {"hard_swish", with_function<&Layers::hard_swish>},
      {"mish", with_function<&Layers::mish>},
      {"slopes", with_trained_slopes},
      {"reductions", with_reductions},
      {"picture_norms", with_norms_of_pictures},
      {"dropout", with_leaky_relu_and_dropout},
      {"rearranged", with_rearrangements},
      {"products", with_products},
      {"dilated", with_dilation},
      {"sequences", with_sequence_convolutions},
      {"volumes", with_volumes},
      {"upsampled", with_upsampling},
      {"grouped_upsampling", with_grouped_upsampling},
      {"softmax", with_softmax_and_rows},
      {"rectangles", with_rectangles},
      {"windows", with_windows},
      {"slices", with_slices},
      {"quantised", with_quantised_layers},
      {"offset", with_offset_and_tanh},
      {"rescaled", with_rescales},
      {"attention", with_attention},
      {"adapters", with_low_rank},
      {"patches", with_patches},
      {"heads", with_heads},
      {"biased", with_biased_attention},
      {"recurrent", with_recurrent_layers},
      {"directions", with_both_directions},
  };
  return list;
}

}  // namespace mantissa::testing
