// The gradient check (gradient_check.h) on networks that hold every operator.
#include "tests/operators/gradient_check.h"

#include <gtest/gtest.h>

#include <functional>

namespace mantissa::testing {
namespace {

class Network {
 public:
  explicit Network(Shape shape) : builder_("network", shape) {
    last_ = builder_.add(ops::kNormaliseInput, "normalise", {builder_.input()},
                         {{"means", WholeList(static_cast<size_t>(shape.last()), 128)}});
  }
  int add(const Op& op, Attributes attributes = {}) { return add(op, {last_}, attributes); }
  int add(const Op& op, std::vector<int> inputs, Attributes attributes = {}) {
    return last_ = builder_.add(op, "node" + std::to_string(count_++), std::move(inputs),
                                std::move(attributes));
  }
  int convolution(int64_t channels, int64_t kernel, int64_t stride, int64_t padding, int64_t bias) {
    return add(ops::kConvolution, {{"channels", channels},
                                   {"kernel", kernel},
                                   {"stride", stride},
                                   {"padding", padding},
                                   {"bias", bias}});
  }
  int add_sharing(int with, const Op& op, Attributes attributes = {}) {
    return last_ = builder_.add_sharing(with, op, "node" + std::to_string(count_++), {last_},
                                        std::move(attributes));
  }
  Graph finish(int64_t classes) {
    add(ops::kLinear, {{"channels", classes}, {"classifier", 1}});
    auto graph = builder_.finish(last_);
    EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
    return std::move(*graph);
  }
  int last() const { return last_; }

 private:
  GraphBuilder builder_;
  int last_ = 0;
  int count_ = 1;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// 8 bits; gradients of 32 bits between layers; 16 bits; and linear values that are wider than the
// others, in widths that no integer type has.
const std::vector<Format>& formats() {
  static const std::vector<Format> list = {
      {},
      {.grad_weights_bits = 32, .headroom = false},
      {.weight_bits = 16, .activation_bits = 16},
      {.weight_bits = 13, .activation_bits = 11, .linear_bits = 16}};
  return list;
}

// Checks a step of the network in each format.
void check_all(const Graph& graph, int64_t batch, const std::vector<const char*>& names,
               const std::function<void(Checked&)>& prepare = {}) {
  for (const Format& format : formats()) {
    SCOPED_TRACE(to_string(format));
    Checked checked(graph, batch, ops::LossKind::kCrossEntropy, 0, format);
    if (prepare) prepare(checked);
    checked.run();
    const auto found = checked.check();
    for (const char* name : names) EXPECT_TRUE(contains(found, name)) << name;
  }
}

TEST(GradientCheck, ConvolutionsPoolingAndLinear) {
  Network net(Shape{9, 8, 1});
  net.convolution(5, 3, 1, 1, 1);
  net.add(ops::kMaxPool, {{"window", 2}});  // the ninth row is left over
  net.add(ops::kRelu);
  net.convolution(4, 3, 2, 1, 1);
  net.add(ops::kRelu);
  net.convolution(6, 2, 1, 0, 0);
  net.add(ops::kFlatten);
  net.add(ops::kLinear, {{"channels", 7}});
  net.add(ops::kRelu);
  check_all(
      net.finish(5), 6,
      {"backward_input convolution", "backward_weights convolution", "backward_input max_pool",
       "backward_input relu", "backward_input linear", "backward_input softmax_cross_entropy"});
}

TEST(GradientCheck, ConvolutionsAndPoolsOfSequences) {
  Network net(Shape{3, 7, 2});
  net.add(ops::kReshape, {{"width", 21}, {"channels", 2}});
  net.add(ops::kConvolution, {{"channels", 6}, {"kernel", 5}, {"stride", 2}, {"padding", 2}});
  net.add(ops::kBatchNorm);
  net.add(ops::kRelu);
  net.add(ops::kConvolution,
          {{"channels", 6}, {"kernel", 3}, {"dilation", 2}, {"causal", 1}, {"groups", 6}});
  net.add(ops::kAveragePool, {{"window", 3}, {"stride", 1}, {"padding", 1}});
  net.add(ops::kConvolution, {{"channels", 4}, {"kernel", 2}, {"causal", 1}, {"stride", 2}});
  net.add(ops::kRelu);
  net.add(ops::kOverlappingMaxPool, {{"window", 3}, {"stride", 1}});
  net.add(ops::kGlobalAveragePool);
  check_all(net.finish(4), 6,
            {"backward_input convolution", "backward_weights convolution",
             "backward_input average_pool", "backward_input overlapping_max_pool",
             "backward_input global_average_pool"});
}

// Kernels with the same taps everywhere, and others; paddings on both ends.
TEST(GradientCheck, TransposedConvolutionsAndResizing) {
  Network net(Shape{4, 5, 2});
  net.add(ops::kTransposedConvolution, {{"channels", 6}});
  net.add(ops::kRelu);
  net.add(ops::kTransposedConvolution,
          {{"channels", 5}, {"kernel", 3}, {"padding", 1}, {"output_padding", 1}, {"bias", 0}});
  net.add(ops::kBatchNorm);
  net.add(ops::kRelu);
  net.convolution(6, 3, 3, 1, 1);
  net.add(ops::kTransposedConvolution, {{"channels", 4},
                                        {"kernel", 4},
                                        {"kernel_width", 2},
                                        {"stride_width", 1},
                                        {"padding", 1},
                                        {"padding_width", 0}});
  net.add(ops::kUpsample, {{"factor", 2}, {"factor_width", 1}});
  net.add(ops::kRelu);
  net.convolution(5, 3, 3, 0, 1);
  net.add(ops::kBilinearResize, {{"height", 7}, {"width", 5}});
  net.add(ops::kBilinearResize, {{"height", 4}, {"width", 9}, {"align_corners", 1}});
  net.add(ops::kFlatten);
  check_all(net.finish(4), 2,
            {"backward_weights transposed_convolution",
             "backward_input upsample", "backward_input bilinear_resize"});
}

TEST(GradientCheck, TransposedConvolutionsAndResizingOfSequences) {
  Network net(Shape{3, 4, 2});
  net.add(ops::kReshape, {{"width", 12}, {"channels", 2}});
  net.add(ops::kTransposedConvolution,
          {{"channels", 6}, {"kernel", 4}, {"stride", 2}, {"padding", 1}});
  net.add(ops::kRelu);
  net.add(ops::kConvolution, {{"channels", 4}, {"kernel", 5}, {"stride", 3}});
  net.add(ops::kUpsample, {{"factor", 3}});
  net.add(ops::kBilinearResize, {{"width", 10}});
  net.add(ops::kFlatten);
  check_all(net.finish(4), 2,
            {"backward_weights transposed_convolution",
             "backward_input upsample", "backward_input bilinear_resize"});
}

// In groups of several channels, of one channel each, and of one input and two outputs.
TEST(GradientCheck, TransposedConvolutionsInGroups) {
  Network net(Shape{4, 5, 2});
  net.convolution(6, 3, 1, 1, 1);
  net.add(ops::kTransposedConvolution, {{"channels", 4}, {"groups", 2}});
  net.add(ops::kRelu);
  net.convolution(6, 3, 2, 1, 1);
  net.add(ops::kTransposedConvolution,
          {{"channels", 6}, {"groups", 6}, {"kernel", 3}, {"padding", 1}, {"output_padding", 1}});
  net.add(ops::kRelu);
  net.convolution(4, 3, 2, 1, 1);
  net.add(ops::kTransposedConvolution,
          {{"channels", 8}, {"groups", 4}, {"kernel", 3}, {"stride", 1}, {"bias", 0}});
  net.add(ops::kFlatten);
  check_all(net.finish(4), 2,
            {"backward_weights transposed_convolution", "backward_input transposed_convolution"});
}

TEST(GradientCheck, Softmaxes) {
  Network net(Shape{6, 5, 1});
  const int image = net.convolution(4, 3, 1, 1, 1);
  std::vector<int> parts;
  for (const char* over : {"positions", "height", "width", "channels"}) {
    const int shares = net.add(ops::kSoftmax, {image}, {{"over", over}});
    const int weighted = net.add(ops::kMultiply, {image, shares});
    parts.push_back(net.add(ops::kFlatten, {weighted}));
  }
  net.add(ops::kConcat, parts);
  net.add(ops::kLinear, {{"channels", 12}});
  net.add(ops::kSoftmax);
  check_all(net.finish(4), 5, {"backward_input softmax"});
}

// Rows that are taken twice, and rows that nobody takes.
TEST(GradientCheck, RowsTakenAndPut) {
  Network net(Shape{3, 5, 1});
  net.add(ops::kLinear, {{"channels", 4}});
  net.add(ops::kGatherRows, {{"rows", WholeList{4, 0, 2, 0, 0, 3}}});
  net.add(ops::kTanh);
  net.add(ops::kScatterRows, {{"rows", WholeList{7, 1, 0, 5, 8, 3}}, {"positions", 9}});
  net.add(ops::kGatherRows, {{"rows", WholeList{8, 6, 5, 1}}});
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5, {"backward_input gather_rows", "backward_input scatter_rows"});
}

TEST(GradientCheck, LinearOfSequencesAndImages) {
  Network net(Shape{5, 3, 1});
  net.add(ops::kLinear, {{"channels", 6}});  // of each pixel
  net.add(ops::kTanh);
  net.add(ops::kLinear, {{"channels", 4}, {"bias", 0}});
  net.add(ops::kRelu);
  net.add(ops::kFlatten);
  check_all(net.finish(5), 6, {"backward_input linear", "backward_weights linear"});
}

// Norms of rows, positions, and the functions of 16-bit values.
TEST(GradientCheck, NormsOfRowsPositionsAndSmoothFunctions) {
  Network net(Shape{4, 3, 1});
  net.add(ops::kLinear, {{"channels", 6}});
  net.add(ops::kPositionEmbedding, {{"positions", 3}, {"least_bits", 16}});
  net.add(ops::kLayerNorm);
  net.add(ops::kLinear, {{"channels", 5}, {"least_bits", 16}});
  net.add(ops::kGelu);
  net.add(ops::kLinear, {{"channels", 7}, {"least_bits", 16}});
  net.add(ops::kRmsNorm);
  net.add(ops::kSilu);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5,
            {"backward_input layer_norm", "backward_weights layer_norm", "backward_input rms_norm",
             "backward_weights rms_norm", "backward_input gelu", "backward_input silu",
             "backward_input position_embedding", "backward_weights position_embedding"});
}

// Heads with norms of their own and a scale that they share; rows of several widths.
TEST(GradientCheck, NormsOfHeads) {
  Network net(Shape{4, 3, 1});
  net.add(ops::kLinear, {{"channels", 12}, {"least_bits", 16}});
  net.add(ops::kRmsNorm, {{"heads", 3}, {"least_bits", 16}});
  net.add(ops::kGeluTanh, {{"least_bits", 16}});
  net.add(ops::kLayerNorm, {{"heads", 2}, {"epsilon", 0.01}});
  net.add(ops::kRmsNorm, {{"heads", 12}, {"epsilon", 0.5}});  // a number each
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5,
            {"backward_input rms_norm", "backward_weights rms_norm", "backward_input layer_norm",
             "backward_weights layer_norm", "backward_input gelu_tanh"});
}

// Groups of several channels, of one and of all, with and without a ReLU behind.
TEST(GradientCheck, GroupNorms) {
  Network net(Shape{7, 6, 1});
  net.convolution(6, 3, 1, 1, 1);
  net.add(ops::kGroupNorm, {{"groups", 3}});
  net.add(ops::kRelu);
  net.convolution(5, 3, 2, 1, 1);
  net.add(ops::kGroupNorm, {{"groups", 5}, {"epsilon", 0.01}});
  net.add(ops::kTanh);
  net.convolution(4, 3, 1, 1, 1);
  net.add(ops::kGroupNorm);
  net.add(ops::kGlobalAveragePool);
  check_all(net.finish(4), 5,
            {"backward_input group_norm", "backward_input group_norm+relu",
             "backward_weights group_norm", "backward_weights group_norm+relu"});
}

TEST(GradientCheck, RowsInFrontAndJoinedSequences) {
  Network net(Shape{2, 5, 1});
  const int left = net.add(ops::kLinear, {{"channels", 6}});
  net.add(ops::kPrependRows, {{"rows", 2}, {"least_bits", 16}});
  net.add(ops::kLinear, {{"channels", 6}});
  const int right = net.add(ops::kTanh);
  net.add(ops::kConcatPositions, {left, right, left});
  net.add(ops::kPrependRows);
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5,
            {"backward_input prepend_rows", "backward_weights prepend_rows",
             "backward_input concat_positions"});
}

TEST(GradientCheck, SinusoidalAndRotaryPositions) {
  Network net(Shape{2, 5, 1});
  net.add(ops::kLinear, {{"channels", 12}});
  net.add(ops::kSinusoidalPositions, {{"least_bits", 16}});
  net.add(ops::kLinear, {{"channels", 12}, {"least_bits", 16}});
  net.add(ops::kRotary, {{"heads", 2}});
  net.add(ops::kTanh);
  net.add(ops::kRotary, {{"heads", 3}, {"channels", 2}, {"base", 50}, {"interleaved", 1}});
  net.add(ops::kRotary, {{"heads", 2}, {"factors", WholeList{1 << 23, 11 << 22, 9 << 23}}});
  net.add(ops::kRotary, {{"factors", WholeList{5 << 21}}});
  net.add(ops::kSinusoidalPositions, {{"interleaved", 0}, {"base", 20}});
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5, {"backward_input rotary", "backward_input sinusoidal_positions"});
}

// A table of positions makes positions different.
TEST(GradientCheck, ReversedSequences) {
  Network net(Shape{4, 3, 1});
  net.add(ops::kPositionEmbedding, {{"positions", 3}});
  net.add(ops::kReverse);
  net.add(ops::kPositionEmbedding, {{"positions", 3}});
  net.add(ops::kLinear, {{"channels", 5}});
  net.add(ops::kTanh);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5, {"backward_input reverse"});
}

// Layers over sequences of five steps, with all options.
TEST(GradientCheck, RecurrentLayers) {
  Network net(Shape{2, 5, 1});
  net.add(ops::kLinear, {{"channels", 16}, {"least_bits", 16}});
  net.add(ops::kLstm, {{"peepholes", 1}});
  net.add(ops::kLinear, {{"channels", 12}, {"least_bits", 16}});
  net.add(ops::kLstm);
  net.add(ops::kLinear, {{"channels", 12}, {"least_bits", 16}});
  net.add(ops::kGru);
  net.add(ops::kLinear, {{"channels", 3}, {"least_bits", 16}});
  net.add(ops::kRnn);
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5,
            {"backward_input lstm", "backward_weights lstm", "backward_input gru",
             "backward_weights gru", "backward_input rnn", "backward_weights rnn"});
}

// Branches as in Inception: pools of both kinds and a convolution, joined; one of them twice.
TEST(GradientCheck, OverlappingPoolsAveragesAndConcat) {
  Network net(Shape{9, 8, 1});
  const int input = net.convolution(4, 3, 1, 1, 1);
  const int largest =
      net.add(ops::kOverlappingMaxPool, {input}, {{"window", 3}, {"stride", 2}, {"padding", 1}});
  const int average = net.add(ops::kAveragePool, {input},
                              {{"window", 3}, {"stride", 2}, {"padding", 1}, {"count_padding", 0}});
  const int strided = net.add(ops::kConvolution, {input},
                              {{"channels", 3}, {"kernel", 3}, {"stride", 2}, {"padding", 1}});
  net.add(ops::kConcat, {largest, average, strided, largest});
  net.add(ops::kAveragePool, {{"window", 3}, {"stride", 1}, {"padding", 1}});
  net.add(ops::kOverlappingMaxPool, {{"window", 3}, {"stride", 1}, {"padding", 1}});
  net.add(ops::kGlobalAveragePool);
  check_all(net.finish(4), 4,
            {"backward_input overlapping_max_pool", "backward_input average_pool",
             "backward_input concat", "backward_input sum_gradients"});
}

Graph residual_network() {
  Network net(Shape{8, 8, 1});
  net.convolution(6, 3, 1, 1, 0);
  net.add(ops::kBatchNorm);
  const int input = net.add(ops::kRelu);
  net.convolution(8, 3, 2, 1, 0);
  net.add(ops::kBatchNorm);
  net.add(ops::kRelu);
  net.convolution(8, 3, 1, 1, 0);
  const int branch = net.add(ops::kBatchNorm);
  net.add(ops::kConvolution, {input},
          {{"channels", 8}, {"kernel", 1}, {"stride", 2}, {"padding", 0}, {"bias", 0}});
  const int shortcut = net.add(ops::kBatchNorm);
  net.add(ops::kAdd, {branch, shortcut});
  const int joined = net.add(ops::kRelu);
  net.convolution(8, 3, 1, 1, 1);
  const int again = net.add(ops::kBatchNorm);
  net.add(ops::kAdd, {again, joined});  // without a ReLU
  net.add(ops::kGlobalAveragePool);
  return net.finish(4);
}

TEST(GradientCheck, ResidualBlocksWithBatchNorm) {
  check_all(
      residual_network(), 6,
      {"backward_input batch_norm", "backward_input batch_norm+relu", "backward_weights batch_norm",
       "backward_weights batch_norm+relu", "backward_input add", "backward_input add+relu",
       "backward_input global_average_pool", "backward_input sum_gradients"});
}

TEST(GradientCheck, BatchNormUnderTheGuard) {
  check_all(residual_network(), 6, {}, [](Checked& checked) {
    auto guards = checked.state().bytes(checked.state().layout().guards);
    std::fill(guards.begin(), guards.end(), std::byte{1});
  });
}

TEST(GradientCheck, RescalesWithAndWithoutARange) {
  const Attributes grid = {{"bits", 4}, {"exponent", -3}};
  Network net(Shape{8, 8, 1});
  net.convolution(6, 3, 1, 1, 0);
  net.add(ops::kRescale);
  net.add(ops::kRelu);
  const int unsigned_input =
      net.add(ops::kQuantise, {{"bits", 4}, {"exponent", -3}, {"channels", 8}});
  net.convolution(8, 3, 2, 1, 0);
  net.add_sharing(unsigned_input, ops::kRescale, grid);
  const int signed_input =
      net.add(ops::kQuantise, {{"bits", 5}, {"exponent", -2}, {"signed", 1}, {"channels", 7}});
  net.convolution(7, 1, 1, 0, 0);
  net.add_sharing(signed_input, ops::kRescale,
                  {{"bits", 5}, {"exponent", -2}, {"signed", 1}, {"least_bits", 12}});
  net.add(ops::kRelu);
  net.add(ops::kGlobalAveragePool);
  check_all(
      net.finish(4), 6,
      {"forward rescale", "forward rescale+relu", "backward_input rescale",
       "backward_input rescale+relu", "backward_weights rescale", "backward_weights rescale+relu"});
}

TEST(GradientCheck, AValueAddedToItselfAndReadTwice) {
  Network net(Shape{6, 6, 1});
  const int a = net.convolution(4, 3, 1, 1, 1);
  const int b = net.convolution(4, 3, 1, 1, 1);
  const int twice = net.add(ops::kAdd, {a, a});
  const int sum = net.add(ops::kAdd, {twice, b});
  const int c = net.add(ops::kConvolution, {a}, {{"channels", 4}, {"padding", 1}});
  const int d = net.add(ops::kConvolution, {b}, {{"channels", 4}, {"padding", 1}});
  const int both = net.add(ops::kAdd, {c, d});
  net.add(ops::kAdd, {both, sum});
  net.add(ops::kGlobalAveragePool);
  check_all(net.finish(3), 5, {});
}

TEST(GradientCheck, SmoothedCrossEntropyAndSquaredError) {
  const auto network = [] {
    Network net(Shape{5, 6, 1});
    net.add(ops::kFlatten);
    net.add(ops::kLinear, {{"channels", 7}});
    net.add(ops::kRelu);
    return net.finish(5);
  };
  for (const int64_t smoothing : {6554, 65535}) {
    Checked checked(network(), 6, ops::LossKind::kCrossEntropy, smoothing);
    checked.run();
    EXPECT_TRUE(contains(checked.check(), "backward_input softmax_cross_entropy"));
  }
  Checked checked(network(), 6, ops::LossKind::kSquaredError);
  checked.run();
  EXPECT_TRUE(contains(checked.check(), "backward_input mean_squared_error"));
}

TEST(GradientCheck, SigmoidCrossEntropy) {
  for (const auto& [outputs, by_output] : {std::pair{1, false}, {5, false}, {1, true}, {5, true}}) {
    for (const char* format : {"bfp8", "bfp:g=8"}) {
      Network net(Shape{5, 6, 1});
      net.add(ops::kFlatten);
      net.add(ops::kLinear, {{"channels", 7}});
      net.add(ops::kRelu);
      Checked checked(net.finish(outputs), 6, ops::LossKind::kSigmoids, 0, *parse_format(format),
                      by_output);
      checked.run();
      EXPECT_TRUE(contains(checked.check(), "backward_input sigmoid_cross_entropy"));
    }
  }
}

TEST(GradientCheck, PointFunctions) {
  for (const Op* op : {&ops::kRelu6, &ops::kLeakyRelu, &ops::kSigmoid, &ops::kTanh,
                       &ops::kHardSigmoid, &ops::kHardSwish, &ops::kElu, &ops::kSoftplus,
                       &ops::kMish}) {
    Network net(Shape{7, 6, 1});
    net.convolution(5, 3, 1, 1, 1);
    net.add(*op);
    net.convolution(4, 3, 2, 1, 1);
    net.add(ops::kBatchNorm);
    net.add(*op);
    net.add(ops::kFlatten);
    net.add(ops::kLinear, {{"channels", 7}});
    net.add(*op);
    check_all(net.finish(5), 6, {(std::string("backward_input ") + op->name).c_str()});
  }
}

TEST(GradientCheck, TrainedSlopes) {
  Network net(Shape{7, 6, 1});
  net.convolution(5, 3, 1, 1, 1);
  net.add(ops::kPrelu);
  net.convolution(4, 3, 2, 1, 1);
  net.add(ops::kPrelu, {{"shared", 1}});
  net.add(ops::kFlatten);
  net.add(ops::kLinear, {{"channels", 7}});
  net.add(ops::kPrelu);
  check_all(net.finish(5), 6, {"backward_input prelu", "backward_weights prelu"});
}

TEST(GradientCheck, RearrangementsDilationGroupsAndDropout) {
  Network net(Shape{8, 7, 1});
  net.add(ops::kPad, {{"top", 1}, {"left", 2}, {"right", 1}});
  net.convolution(8, 3, 1, 1, 1);
  net.add(ops::kRelu);
  net.add(ops::kChannelShuffle, {{"groups", 4}});
  net.add(ops::kConvolution, {{"channels", 6}, {"padding", 2}, {"dilation", 2}, {"groups", 2}});
  net.add(ops::kDropout, {{"probability", 13107 / 65536.0}});
  net.add(ops::kPad, {{"bottom", 1}, {"right", 2}});
  net.add(ops::kConvolution,
          {{"channels", 6}, {"padding", 3}, {"dilation", 3}, {"stride", 2}, {"groups", 1}});
  net.add(ops::kRelu);
  net.add(ops::kConvolution,
          {{"channels", 6}, {"padding", 2}, {"dilation", 2}, {"groups", 6}, {"bias", 0}});
  net.add(ops::kReshape, {{"height", 3}, {"width", 5}, {"channels", 12}});
  net.add(ops::kConvolution, {{"channels", 4}, {"kernel", 2}});
  net.add(ops::kFlatten);
  check_all(net.finish(4), 3,
            {"backward_input pad", "backward_input channel_shuffle", "backward_input dropout",
             "backward_weights convolution"});
}

// Two halves of a value. One of them passes through a layer, as in ShuffleNet v2.
TEST(GradientCheck, SlicesOfChannels) {
  Network net(Shape{6, 5, 1});
  const int both = net.convolution(7, 3, 1, 1, 1);
  const int left = net.add(ops::kSlice, {both}, {{"channels", 3}});
  const int right = net.add(ops::kSlice, {both}, {{"first", 3}, {"channels", 4}});
  const int branch = net.add(ops::kConvolution, {right}, {{"channels", 4}, {"kernel", 1}});
  net.add(ops::kConcat, {left, branch});
  net.add(ops::kFlatten);
  check_all(net.finish(4), 4, {"backward_input slice", "backward_input sum_gradients"});
}

// The first position of each row of an image, and the last channels of another position.
TEST(GradientCheck, SlicesOfPositions) {
  Network net(Shape{6, 5, 1});
  const int all = net.convolution(7, 3, 1, 1, 1);
  const int first = net.add(ops::kSlice, {all}, {{"position", 0}, {"channels", 7}});
  const int other = net.add(ops::kSlice, {all}, {{"position", 3}, {"first", 5}, {"channels", 2}});
  net.add(ops::kConcat, {first, other});
  net.add(ops::kFlatten);
  check_all(net.finish(4), 4, {"backward_input slice", "backward_input sum_gradients"});
}

TEST(GradientCheck, Rectangles) {
  Network net(Shape{8, 9, 1});
  net.add(
      ops::kConvolution,
      {{"channels", 8}, {"kernel", 1}, {"kernel_width", 5}, {"padding", 0}, {"padding_width", 2}});
  net.add(ops::kRelu);
  net.add(ops::kConvolution,
          {{"channels", 8}, {"groups", 8}, {"stride", 2}, {"stride_width", 1}, {"padding", 1}});
  net.add(ops::kAveragePool,
          {{"window", 1}, {"window_width", 3}, {"stride", 1}, {"padding_width", 1}});
  net.add(ops::kConvolution, {{"channels", 6},
                              {"kernel", 3},
                              {"kernel_width", 2},
                              {"stride", 1},
                              {"stride_width", 2},
                              {"padding", 1},
                              {"padding_width", 0}});
  net.add(
      ops::kOverlappingMaxPool,
      {{"window", 3}, {"window_width", 2}, {"stride", 1}, {"padding", 1}, {"padding_width", 0}});
  net.add(ops::kFlatten);
  check_all(net.finish(4), 5,
            {"backward_input convolution", "backward_input average_pool",
             "backward_input overlapping_max_pool", "backward_weights convolution"});
}

// Weights whose output channels have exponents of their own, up to 2^3 apart: grouped, dilated, one
// channel at a time, linear; and with batch norm, under the guard.
TEST(GradientCheck, ExponentsPerOutputChannel) {
  for (const bool guarded : {false, true}) {
    Network net(Shape{6, 5, 1});
    net.convolution(8, 3, 1, 1, 1);
    net.add(ops::kRelu);
    net.add(ops::kConvolution, {{"channels", 6}, {"padding", 2}, {"dilation", 2}, {"groups", 2}});
    net.add(ops::kConvolution, {{"channels", 6}, {"padding", 1}, {"groups", 6}, {"bias", 0}});
    if (guarded) net.add(ops::kBatchNorm);
    net.convolution(9, 3, 2, 1, 0);
    if (guarded) net.add(ops::kBatchNorm);
    net.add(ops::kRelu);
    net.add(ops::kFlatten);
    net.add(ops::kLinear, {{"channels", 7}});
    net.add(ops::kRelu);
    Checked checked(net.finish(5), 5, ops::LossKind::kCrossEntropy, 0, {.tensor_blocks = false});
    const StateLayout& layout = checked.state().layout();
    for (size_t i = 0; i < layout.parameters.size(); ++i) {
      if (checked.graph().parameters[i].storage != Storage::kWeights) continue;
      auto* exponents = checked.state().data<int16_t>(layout.parameters[i].exponent);
      const int64_t channels = layout.tensors[layout.parameters[i].exponent].shape.count();
      ASSERT_EQ(channels, checked.graph().parameters[i].shape[0]);
      for (int64_t o = 0; o < channels; ++o) exponents[o] -= static_cast<int16_t>(o * 3 % 4);
    }
    auto guards = checked.state().bytes(layout.guards);
    std::fill(guards.begin(), guards.end(), std::byte{guarded});
    checked.run();
    const auto names = checked.check();
    for (const char* name :
         {"backward_input convolution", "backward_weights convolution", "backward_input linear"}) {
      EXPECT_TRUE(contains(names, name)) << name;
    }
    EXPECT_EQ(contains(names, "backward_input batch_norm"), guarded);
  }
}

TEST(GradientCheck, DifferencesAndReductions) {
  Network net(Shape{6, 5, 1});
  const int a = net.convolution(4, 3, 1, 1, 1);
  const int b = net.add(ops::kConvolution, {a}, {{"channels", 4}, {"padding", 1}});
  const int difference = net.add(ops::kSubtract, {a, b});
  std::vector<int> parts;
  for (const Op* op : {&ops::kReduceMax, &ops::kReduceMean, &ops::kReduceSum}) {
    parts.push_back(net.add(*op, {difference}));
    for (const char* over : {"height", "width", "channels"}) {
      const int some = net.add(*op, {difference}, {{"over", over}});
      parts.push_back(net.add(ops::kFlatten, {some}));
    }
  }
  net.add(ops::kConcat, parts);
  check_all(net.finish(3), 5,
            {"backward_input subtract", "backward_input reduce_max", "backward_input reduce_mean",
             "backward_input reduce_sum"});
}

TEST(GradientCheck, Factors) {
  Network net(Shape{6, 6, 1});
  net.convolution(4, 3, 1, 1, 1);
  net.add(ops::kScale, {{"factor", 2.5}});
  net.convolution(4, 3, 1, 1, 1);
  net.add(ops::kScale, {{"factor", 0.25}});
  net.add(ops::kFlatten);
  check_all(net.finish(3), 5, {"backward_input scale"});
}

TEST(GradientCheck, ProductsAndGates) {
  Network net(Shape{6, 6, 1});
  net.convolution(4, 3, 1, 1, 1);
  const int image = net.add(ops::kTanh);
  net.add(ops::kGlobalAveragePool);
  net.add(ops::kLinear, {{"channels", 4}});
  const int gate = net.add(ops::kHardSigmoid);
  const int gated = net.add(ops::kMultiply, {image, gate});
  net.add(ops::kMultiply, {gated, image});
  const int square = net.add(ops::kMultiply, {net.last(), net.last()});
  net.add(ops::kAdd, {square, image});
  net.convolution(5, 3, 2, 1, 1);
  net.add(ops::kFlatten);
  check_all(net.finish(3), 5, {"backward_input multiply"});
}

}  // namespace
}  // namespace mantissa::testing
