// The gradient check (gradient_check.h) of convolutions, pools and operators that move elements.
#include <gtest/gtest.h>

#include "tests/operators/gradient_networks.h"

namespace mantissa::testing::gradients {
namespace {

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
  net.add(ops::kTanh);
  net.convolution(6, 3, 2, 1, 1);
  net.add(ops::kTransposedConvolution,
          {{"channels", 6}, {"groups", 6}, {"kernel", 3}, {"padding", 1}, {"output_padding", 1}});
  net.add(ops::kTanh);
  net.convolution(4, 3, 2, 1, 1);
  net.add(ops::kTransposedConvolution,
          {{"channels", 8}, {"groups", 4}, {"kernel", 3}, {"stride", 1}, {"bias", 0}});
  net.add(ops::kFlatten);
  check_all(net.finish(4), 2,
            {"backward_weights transposed_convolution", "backward_input transposed_convolution"});
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

}  // namespace
}  // namespace mantissa::testing::gradients
